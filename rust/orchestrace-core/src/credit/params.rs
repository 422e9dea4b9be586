//! Parameters of methods: declared, given and effective values.
//!
//! A method lists its parameters once; checking, the docs and the column `params` follow from the list.

use std::borrow::Cow;
use std::fmt::Write;

use crate::error::{Error, Result, unknown_name};

/// A parameter's value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Not set; a rule of the method's own takes its place.
    Null,
    /// A flag.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// A word.
    Text(Cow<'static, str>),
    /// A list of numbers.
    Floats(Cow<'static, [f64]>),
}

impl Value {
    /// As JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        shown(self)
    }
}

/// The values that a parameter takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ParamKind {
    /// A flag.
    Bool,
    /// A whole number from the first to the second, both included.
    Int(i64, i64),
    /// A finite number from the first to the second, both included.
    Float(f64, f64),
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Any text that is not empty.
    Text,
    /// So many finite numbers, each from the first bound to the second, both included.
    Floats(usize, f64, f64),
}

/// One parameter of a method.
#[derive(Debug)]
pub struct Param {
    /// Name.
    pub name: &'static str,
    /// What values it takes.
    pub kind: ParamKind,
    /// Value where none is given; [`Value::Null`] is then allowed as a given value, too.
    pub default: Value,
    /// One line.
    pub doc: &'static str,
}

/// Weight of a row in the mean of a larger unit, for every method whose rows are smaller than a trace.
pub const WEIGHT: Param = Param {
    name: "weight",
    kind: ParamKind::Choice(&["rows", "tokens_out"]),
    default: Value::Text(Cow::Borrowed("rows")),
    doc: "weight of a row in the mean of a larger unit: 1, or its output tokens",
};

/// The rows of a method along time.
pub const ROWS: Param = Param {
    name: "rows",
    kind: ParamKind::Choice(&["turns", "events"]),
    default: Value::Text(Cow::Borrowed("turns")),
    doc: "turns of agents, or single events",
};

/// Discount per turn or event.
pub const GAMMA: Param = Param {
    name: "gamma",
    kind: ParamKind::Float(0.0, 1.0),
    default: Value::Float(0.99),
    doc: "discount per row",
};

/// Weight of later differences, for methods with a critic.
pub const LAMBDA: Param = Param {
    name: "lambda_",
    kind: ParamKind::Float(0.0, 1.0),
    default: Value::Float(0.95),
    doc: "0: one step and the critic; 1: the whole return",
};

/// Degrees of freedom of a standard deviation.
pub const DDOF: Param = Param {
    name: "ddof",
    kind: ParamKind::Int(0, 1),
    default: Value::Int(1),
    doc: "1 divides the squares by n - 1, 0 by n",
};

/// A constant that keeps a quotient finite.
pub const EPSILON: Param = Param {
    name: "epsilon",
    kind: ParamKind::Float(0.0, f64::MAX),
    default: Value::Float(1e-6),
    doc: "added to the standard deviation",
};

/// Behavior of a released trainer where it differs from the definition.
pub const COMPAT: Param = Param {
    name: "compat",
    kind: ParamKind::Choice(&["verl"]),
    default: Value::Null,
    doc: "verl: a group of one keeps its reward, as in the released code; null: it gets 0",
};

/// Mean alone, or mean and deviation.
pub const NORM: Param = Param {
    name: "norm",
    kind: ParamKind::Choice(&["mean", "mean_std"]),
    default: Value::Text(Cow::Borrowed("mean")),
    doc: "mean: subtract the mean; mean_std: also divide by the standard deviation",
};

/// The source of a decision's context.
pub const CONTEXT: Param = Param {
    name: "context",
    kind: ParamKind::Choice(&["auto", "recorded", "computed"]),
    default: Value::Text(Cow::Borrowed("auto")),
    doc: "key of what the actor had seen: recorded in the trace, computed from its causal history, or (auto) recorded \
          if the trace has any",
};

/// Whether consecutive events of one owner are joined.
pub const PROGRAM_ORDER: Param = Param {
    name: "program_order",
    kind: ParamKind::Bool,
    default: Value::Bool(false),
    doc: "join consecutive events of one owner by temporal edges",
};

impl Param {
    fn check(&self, value: Value) -> Result<Value> {
        let inside = |x: f64, lo: f64, hi: f64| x.is_finite() && lo <= x && x <= hi;
        Ok(match (self.kind, value) {
            (_, Value::Null) if self.default == Value::Null => Value::Null,
            (ParamKind::Bool, Value::Bool(x)) => Value::Bool(x),
            (ParamKind::Int(lo, hi), Value::Int(x)) if lo <= x && x <= hi => Value::Int(x),
            (ParamKind::Float(lo, hi), Value::Float(x)) if inside(x, lo, hi) => Value::Float(x),
            (ParamKind::Float(lo, hi), Value::Int(x)) if inside(x as f64, lo, hi) => Value::Float(x as f64),
            (ParamKind::Choice(known), Value::Text(x)) => match known.iter().find(|&&word| word == x) {
                Some(word) => Value::Text(Cow::Borrowed(word)),
                None => return Err(Error::Parameter(unknown_name(self.name, &x, known))),
            },
            (ParamKind::Text, Value::Text(x)) if !x.is_empty() => Value::Text(x),
            (ParamKind::Floats(n, lo, hi), Value::Floats(x))
                if x.len() == n && x.iter().all(|&x| inside(x, lo, hi)) =>
            {
                Value::Floats(x)
            }
            (_, other) => {
                let message = format!("{} must be {}, found {}", self.name, self.expected(), shown(&other));
                return Err(Error::Parameter(message));
            }
        })
    }

    /// What is expected, in words.
    #[must_use]
    pub fn expected(&self) -> String {
        let null = if self.default == Value::Null { " or null" } else { "" };
        match self.kind {
            ParamKind::Bool => format!("true or false{null}"),
            ParamKind::Int(lo, hi) => format!("a whole number from {lo} to {hi}{null}"),
            ParamKind::Float(lo, hi) => format!("a number from {lo:?} to {hi:?}{null}"),
            ParamKind::Choice(known) => format!("one of {}{null}", known.join(", ")),
            ParamKind::Text => format!("text{null}"),
            ParamKind::Floats(n, lo, hi) => format!("a list of {n} numbers from {lo:?} to {hi:?}{null}"),
        }
    }
}

/// All parameters of one call, checked, defaults included, in the order of the method's list.
#[derive(Debug, Clone, PartialEq)]
pub struct Params {
    values: Vec<(&'static str, Value)>,
}

impl Params {
    /// All parameters of a list at their defaults.
    #[must_use]
    pub fn defaults(list: &'static [Param]) -> Self {
        Self { values: list.iter().map(|p| (p.name, p.default.clone())).collect() }
    }

    /// Checks what was given against a method's list; an unknown name, a wrong type, a value out of range and a
    /// name given twice are errors that say what would be right.
    pub fn check(list: &'static [Param], arguments: &[(&str, Value)]) -> Result<Self> {
        let Self { mut values } = Self::defaults(list);
        for (i, (name, value)) in arguments.iter().enumerate() {
            let Some(at) = list.iter().position(|p| p.name == *name) else {
                let names: Vec<_> = list.iter().map(|p| p.name).collect();
                return Err(Error::Parameter(unknown_name("parameter", name, &names)));
            };
            if arguments[..i].iter().any(|(earlier, _)| earlier == name) {
                return Err(Error::Parameter(format!("parameter '{name}' is given twice")));
            }
            values[at].1 = list[at].check(value.clone())?;
        }
        Ok(Self { values })
    }

    /// Value of a parameter; null if the method has none of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> &Value {
        self.values.iter().find(|(n, _)| *n == name).map_or(&Value::Null, |(_, value)| value)
    }

    /// A flag; false where null.
    #[must_use]
    pub fn bool(&self, name: &str) -> bool {
        self.get(name) == &Value::Bool(true)
    }

    /// A whole number, unless null.
    #[must_use]
    pub fn int(&self, name: &str) -> Option<i64> {
        if let Value::Int(x) = self.get(name) { Some(*x) } else { None }
    }

    /// A number, unless null.
    #[must_use]
    pub fn float(&self, name: &str) -> Option<f64> {
        if let Value::Float(x) = self.get(name) { Some(*x) } else { None }
    }

    /// A word, unless null.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        if let Value::Text(x) = self.get(name) { Some(x) } else { None }
    }

    /// A list of numbers, unless null.
    #[must_use]
    pub fn floats(&self, name: &str) -> Option<&[f64]> {
        if let Value::Floats(x) = self.get(name) { Some(x) } else { None }
    }

    /// The same with another value for the record, whatever the list says of it.
    #[must_use]
    pub fn recorded_as(mut self, name: &str, value: &Value) -> Self {
        self.values.iter_mut().filter(|(n, _)| *n == name).for_each(|(_, old)| *old = value.clone());
        self
    }

    /// All parameters and `more` (seed, versions, …) as one JSON object, keys in byte order.
    #[must_use]
    pub fn json(&self, more: &[(&str, Value)]) -> String {
        let mut all: Vec<(&str, &Value)> = self.values.iter().map(|(n, v)| (*n, v)).collect();
        all.extend(more.iter().map(|(n, v)| (*n, v)));
        all.sort_by_key(|&(name, _)| name);
        let fields: Vec<String> =
            all.iter().map(|(name, value)| format!("{}:{}", quoted(name), shown(value))).collect();
        format!("{{{}}}", fields.join(","))
    }
}

/// A value as JSON. Numbers are the shortest that read back to the same bits; what JSON lacks is null.
fn shown(value: &Value) -> String {
    let number = |x: &f64| if x.is_finite() { format!("{x:?}") } else { "null".to_owned() };
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(x) => x.to_string(),
        Value::Int(x) => x.to_string(),
        Value::Float(x) => number(x),
        Value::Text(x) => quoted(x),
        Value::Floats(x) => format!("[{}]", x.iter().map(number).collect::<Vec<_>>().join(",")),
    }
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            // writing to a String cannot fail
            c if c < ' ' => drop(write!(out, "\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    static LIST: &[Param] = &[
        Param {
            name: "kernel",
            kind: ParamKind::Choice(&["uniform", "edge_type"]),
            default: Value::Text(Cow::Borrowed("uniform")),
            doc: "",
        },
        Param { name: "retention", kind: ParamKind::Float(0.0, 1.0), default: Value::Float(0.1), doc: "" },
        Param { name: "tau", kind: ParamKind::Float(0.0, f64::MAX), default: Value::Null, doc: "" },
        Param { name: "ddof", kind: ParamKind::Int(0, 1), default: Value::Int(1), doc: "" },
        Param { name: "weights", kind: ParamKind::Floats(2, 0.0, 9.0), default: Value::Null, doc: "" },
        Param { name: "program_order", kind: ParamKind::Bool, default: Value::Bool(false), doc: "" },
    ];

    fn text(word: &str) -> Value {
        Value::Text(word.to_owned().into())
    }

    fn error(name: &str, value: Value) -> String {
        Params::check(LIST, &[(name, value)]).unwrap_err().to_string()
    }

    #[test]
    fn defaults_and_given_values() {
        let p = Params::check(LIST, &[]).unwrap();
        assert_eq!(
            (p.text("kernel"), p.float("retention"), p.float("tau")),
            (Some("uniform"), Some(0.1), None)
        );
        assert_eq!((p.int("ddof"), p.floats("weights"), p.bool("program_order")), (Some(1), None, false));
        let arguments = [
            ("retention", Value::Int(1)),
            ("weights", Value::Floats(vec![1.0, 2.5].into())),
            ("tau", Value::Null),
        ];
        let p = Params::check(LIST, &arguments).unwrap();
        assert_eq!((p.float("retention"), p.floats("weights")), (Some(1.0), Some(&[1.0, 2.5][..])));
    }

    #[test]
    fn errors_say_what_would_be_right() {
        assert!(error("retantion", Value::Null).contains("did you mean 'retention'?"));
        assert!(error("kernel", text("edge_typ")).contains("did you mean 'edge_type'?"));
        assert_eq!(
            error("retention", Value::Float(1.5)),
            "retention must be a number from 0.0 to 1.0, found 1.5"
        );
        assert_eq!(error("retention", Value::Null), "retention must be a number from 0.0 to 1.0, found null");
        assert_eq!(error("ddof", Value::Float(1.0)), "ddof must be a whole number from 0 to 1, found 1.0");
        assert!(error("tau", Value::Float(f64::NAN)).contains("or null, found null"));
        assert!(
            error("weights", Value::Floats(vec![1.0].into()))
                .starts_with("weights must be a list of 2 numbers")
        );
        assert_eq!(
            error("program_order", text("yes\n")),
            "program_order must be true or false, found \"yes\\u000a\""
        );
        let twice = [("ddof", Value::Int(1)), ("ddof", Value::Int(0))];
        assert_eq!(Params::check(LIST, &twice).unwrap_err().to_string(), "parameter 'ddof' is given twice");
    }

    #[test]
    fn json_holds_everything_in_byte_order() {
        let p = Params::check(LIST, &[("weights", Value::Floats(vec![1.0, 1e-6].into()))]).unwrap();
        let json = p.json(&[("seed", Value::Int(0)), ("a\"b", text("\\"))]);
        assert_eq!(
            json,
            r#"{"a\"b":"\\","ddof":1,"kernel":"uniform","program_order":false,"retention":0.1,"seed":0,"tau":null,"weights":[1.0,1e-6]}"#
        );
        serde_json::from_str::<serde_json::Value>(&json).unwrap();
    }
}
