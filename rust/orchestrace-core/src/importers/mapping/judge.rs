//! Validation of the mapping file: keys, pointers and words. Errors are the user's mistakes, reported in one line with
//! the key, what was found and what is expected.

use super::counts::{Reads, Way};
use super::source::{Expr, FieldValue, Pointer, Slot, Unit};
use super::spec::{Field, Fields, Key, Measures, Parts, Spec, StepKind, Word};
use crate::columns::gate::may_be_extra;
use crate::error::{Error, Result, printable, unknown_name};
use crate::importers::recording::OWN_EXTRAS;
use crate::json::tree::{Tree, Value};
use crate::json::{Kind, Limits};

const TRACE: &[Key] = &[Key::Id, Key::Task, Key::Group, Key::System, Key::Reward, Key::Partial, Key::Started];
const STEP: &[Key] = &[
    Key::Kind,
    Key::Id,
    Key::Order,
    Key::Response,
    Key::Agent,
    Key::AgentName,
    Key::Parent,
    Key::Role,
    Key::Trainable,
    Key::From,
    Key::To,
    Key::Time,
    Key::Start,
    Key::Duration,
    Key::Model,
    Key::TokensIn,
    Key::TokensOut,
    Key::Tokens,
    Key::Cached,
    Key::CacheWrite,
    Key::CacheWrite1h,
    Key::Fresh,
    Key::Reasoning,
    Key::Cost,
    Key::Prompt,
    Key::Content,
    Key::Tool,
    Key::Call,
    Key::Arguments,
    Key::Ok,
    Key::Error,
    Key::Trusted,
    Key::Score,
    Key::Reward,
    Key::Turn,
];
const CALLS: &[Key] = &[Key::Kind, Key::Call, Key::Tool, Key::Arguments, Key::To, Key::Time];
const RESULTS: &[Key] = &[
    Key::Call,
    Key::Id,
    Key::Tool,
    Key::Content,
    Key::Time,
    Key::Duration,
    Key::Ok,
    Key::Error,
    Key::Trusted,
];
const LABELS: &[Key] = &[Key::Annotator, Key::Label, Key::Event, Key::Turn, Key::Agent, Key::Weight];
const LIMITS: Limits = Limits { depth: 32, string: 1 << 20, lenient: false };

impl Spec {
    /// Judges a mapping, given as JSON; `file` is what messages call it.
    pub(super) fn parse(text: &str, file: &str) -> Result<Self> {
        let tree = Tree::parse(text, LIMITS)
            .map_err(|fault| Error::Parameter(format!("{file}: {}", fault.into_reject().message)))?;
        let mut reading = Reading {
            file,
            slots: Vec::new(),
            of_record: true,
            ways: Vec::new(),
            keys: Vec::new(),
            key: String::new(),
            here: vec![Vec::new()],
            step: Vec::new(),
            up: Vec::new(),
        };
        reading.spec(tree.root())
    }
}

struct Reading<'f> {
    file: &'f str,
    slots: Vec<Slot>,
    /// Whether pointers without a word before them lead into the record.
    of_record: bool,
    ways: Vec<Way>,
    keys: Vec<(String, Expr)>,
    /// The key that is read.
    key: String,
    /// Where, in a record, what is read lies: the current part, of which there may be several kinds; the step; what
    /// holds the list of steps.
    here: Vec<Vec<String>>,
    step: Vec<String>,
    up: Vec<String>,
}

impl Reading<'_> {
    fn error<T>(&self, key: &str, message: &str) -> Result<T> {
        Err(Error::Parameter(printable(&format!("{}: {key}: {message}", self.file)).into_owned()))
    }

    fn expected<T>(&self, key: &str, value: Value<'_>, expected: &str) -> Result<T> {
        self.error(key, &format!("found {}, expected {expected}", FieldValue::Json(value).shown()))
    }

    /// The keys of a table are all known.
    fn table(&self, section: &str, value: Value<'_>, allowed: &[&str]) -> Result<()> {
        if value.exists() && value.kind() != Some(Kind::Object) {
            return self.expected(section, value, "a table");
        }
        for (key, _) in value.members() {
            if !allowed.contains(&key) {
                let place = if section.is_empty() { String::new() } else { format!("{section}: ") };
                let hint = unknown_name("key", key, allowed);
                return Err(Error::Parameter(format!("{}: {place}{hint}", self.file)));
            }
        }
        Ok(())
    }

    fn text<'v>(&self, key: &str, value: Value<'v>) -> Result<&'v str> {
        match value.some_str() {
            Some(text) => Ok(text),
            None => self.expected(key, value, "a text"),
        }
    }

    fn spec(&mut self, root: Value<'_>) -> Result<Spec> {
        if root.kind() != Some(Kind::Object) {
            return self.expected("the file", root, "a table");
        }
        self.table("", root, &["name", "steps", "users", "trace", "step"])?;
        let name = root.get("name");
        let system = if name.exists() { self.text("name", name)? } else { "mapping" }.to_owned();
        let users = root.get("users");
        let users = match users.kind() {
            None => vec!["user".to_owned()],
            Some(Kind::Array) => users
                .elements()
                .map(|user| self.text("users", user).map(str::to_owned))
                .collect::<Result<_>>()?,
            Some(_) => return self.expected("users", users, "a list of names"),
        };
        let steps = self.steps(root.get("steps"))?;
        let steps_way = steps.as_ref().map(|pointer| {
            let shown = pointer.spelt();
            self.up = pointer.0[..pointer.0.len().saturating_sub(1)].to_vec();
            self.step = pointer.0.iter().cloned().chain(["*".to_owned()]).collect();
            self.ways.push(Way {
                key: "steps".into(),
                shown,
                paths: vec![pointer.0.clone()],
                reads: Reads::List,
            });
            self.ways.len() - 1
        });
        let (trace, step) = (root.get("trace"), root.get("step"));
        for (section, value, key) in [("trace", trace, "id"), ("step", step, "kind")] {
            if !value.exists() || (value.kind() == Some(Kind::Object) && value.get(key).is_absent()) {
                return self.error(&format!("{section}.{key}"), "found nothing, expected a JSON pointer");
            }
        }
        self.of_record = true;
        let lists = ["rewards", "metrics", "costs", "labels"];
        let trace_fields = self.section("trace", trace, TRACE, &lists)?;
        let rewards = self.measures("trace.rewards", trace.get("rewards"))?;
        let metrics = self.measures("trace.metrics", trace.get("metrics"))?;
        let costs = self.measures("trace.costs", trace.get("costs"))?;
        let trace_labels = self.parts("trace.labels", trace.get("labels"), LABELS)?;
        self.of_record = false;
        self.here = vec![self.step.clone()];
        let lists = ["calls", "results", "labels", "extras"];
        let step_fields = self.section("step", step, STEP, &lists)?;
        let calls = self.parts("step.calls", step.get("calls"), CALLS)?;
        let results = self.parts("step.results", step.get("results"), RESULTS)?;
        let labels = self.parts("step.labels", step.get("labels"), LABELS)?;
        let extras = self.extras(step.get("extras"))?;
        let (time, start) = (step_fields.get(Key::Time), step_fields.get(Key::Start));
        let relative = time.or(start).is_some_and(|field| field.relative);
        if time.zip(start).is_some_and(|(time, start)| time.relative != start.relative) {
            return self
                .error("step.start", "counts from a different origin than step.time, expected the same");
        }
        let mut spec = Spec {
            system,
            users,
            steps,
            slots: std::mem::take(&mut self.slots),
            trace: trace_fields,
            rewards,
            metrics,
            costs,
            trace_labels,
            step: step_fields,
            calls,
            results,
            labels,
            extras,
            relative,
            ways: std::mem::take(&mut self.ways),
            keys: std::mem::take(&mut self.keys),
            steps_way,
        };
        spec.settle();
        Ok(spec)
    }

    fn steps(&self, value: Value<'_>) -> Result<Option<Pointer>> {
        if value.is_absent() {
            return Ok(None);
        }
        let Some(text) = value.str() else { return self.expected("steps", value, "a JSON pointer") };
        match Pointer::parse(text) {
            Ok(pointer) if pointer.0.last().is_some_and(|token| token == "*") => self
                .error("steps", &format!("found '{text}', expected a pointer that ends with the list's key")),
            Ok(pointer) => Ok(Some(pointer)),
            Err(expected) => self.expected("steps", value, expected),
        }
    }

    /// The fields of a section; `others` are the tables in it.
    fn section(&mut self, name: &str, value: Value<'_>, keys: &[Key], others: &[&str]) -> Result<Fields> {
        let allowed: Vec<&str> = keys.iter().map(|key| key.as_str()).chain(others.iter().copied()).collect();
        let mut fields = Fields::new();
        self.table(name, value, &allowed)?;
        for (word, member) in value.members() {
            if let Some(key) = keys.iter().find(|key| key.as_str() == word) {
                let field = self.field(&format!("{name}.{word}"), member, Some(*key))?;
                fields.put(*key, field);
            }
        }
        if name.starts_with("step")
            && let Some(kind) = fields.get(Key::Kind)
        {
            let kinds_allowed = if name == "step" { StepKind::NAMES } else { StepKind::OF_CALLS };
            self.kinds(&format!("{name}.kind"), kind, kinds_allowed)?;
        }
        Ok(fields)
    }

    /// The words of a kind are ours.
    fn kinds(&self, key: &str, field: &Field, kinds: &[&str]) -> Result<()> {
        let constant = match &field.expr {
            Expr::Constant(word) if field.words.is_none() => Some(Word::Text(word.clone())),
            _ => None,
        };
        let words = field.words.iter().flatten().map(|(_, word)| word);
        for word in words.chain(&field.other).chain(&constant) {
            match word {
                Word::Text(word) if kinds.contains(&word.as_str()) => {}
                Word::Text(word) => return self.error(key, &unknown_name("kind", word, kinds)),
                Word::Number(_) | Word::Flag(_) => {
                    return self
                        .error(key, &format!("found a word that is not a text, expected one of {kinds:?}"));
                }
            }
        }
        Ok(())
    }

    fn field(&mut self, key: &str, value: Value<'_>, of: Option<Key>) -> Result<Field> {
        key.clone_into(&mut self.key);
        let field = self.place_of(key, value, of)?;
        self.keys.push((key.to_owned(), field.expr.clone()));
        Ok(field)
    }

    /// Where a value lies and what its words mean.
    fn place_of(&mut self, key: &str, value: Value<'_>, of: Option<Key>) -> Result<Field> {
        let mut field = Field {
            expr: Expr::Constant(String::new()),
            words: None,
            other: None,
            unit: None,
            relative: false,
            except: Vec::new(),
            shown: value.str().map_or_else(|| value.raw().to_owned(), str::to_owned),
            place: String::new(),
        };
        if value.kind() != Some(Kind::Object) || value.get("join").exists() {
            field.expr = self.expr(key, value)?;
            field.place = self.place(&field.expr);
            return Ok(field);
        }
        let timed = matches!(of, Some(Key::Time | Key::Start | Key::Started));
        let mut allowed = vec!["at", "join", "words", "other"];
        if timed || of == Some(Key::Duration) {
            allowed.push("unit");
        }
        if timed && of != Some(Key::Started) {
            allowed.push("since");
        }
        let all = of.is_none() && key.ends_with(".*");
        if all {
            allowed = vec!["at", "except"];
        }
        self.table(key, value, &allowed)?;
        let except = value.get("except");
        if except.exists() && except.kind() != Some(Kind::Array) {
            return self.expected(&format!("{key}.except"), except, "a list of names");
        }
        for name in except.elements() {
            field.except.push(self.text(&format!("{key}.except"), name)?.to_owned());
        }
        let at = value.get("at");
        if at.is_absent() {
            return self.error(&format!("{key}.at"), "found nothing, expected a JSON pointer");
        }
        field.shown = at.str().map_or_else(|| at.raw().to_owned(), str::to_owned);
        field.expr = self.expr(&format!("{key}.at"), at)?;
        field.place = self.place(&field.expr);
        let words = value.get("words");
        if words.exists() {
            if words.kind() != Some(Kind::Object) {
                return self.expected(&format!("{key}.words"), words, "a table of words");
            }
            let word = |(theirs, ours): (&str, Value<'_>)| {
                Ok((theirs.to_owned(), self.word(&format!("{key}.words.{theirs}"), ours)?))
            };
            field.words = Some(words.members().map(word).collect::<Result<_>>()?);
        }
        let other = value.get("other");
        if other.exists() {
            if field.words.is_none() {
                return self
                    .error(&format!("{key}.other"), "is unused without words, expected words beside it");
            }
            field.other = Some(self.word(&format!("{key}.other"), other)?);
        }
        let unit = value.get("unit");
        if unit.exists() {
            let word = self.text(&format!("{key}.unit"), unit)?;
            field.unit = Unit::parse(word);
            if field.unit.is_none() {
                return self.error(&format!("{key}.unit"), &unknown_name("unit", word, Unit::NAMES));
            }
        }
        let since = value.get("since");
        if since.exists() {
            let word = self.text(&format!("{key}.since"), since)?;
            if !["epoch", "start"].contains(&word) {
                let hint = unknown_name("beginning", word, &["epoch", "start"]);
                return self.error(&format!("{key}.since"), &hint);
            }
            field.relative = word == "start";
            if field.relative && field.unit.is_none() {
                return self.error(key, "counts from the start and needs a unit");
            }
        }
        Ok(field)
    }

    /// A JSON pointer to where a value is looked for first.
    fn place(&self, expr: &Expr) -> String {
        let mut pointers = Vec::new();
        expr.pointers(&self.slots, &mut pointers);
        pointers.first().map_or(String::new(), |(_, pointer)| pointer.spelt())
    }

    fn word(&self, key: &str, value: Value<'_>) -> Result<Word> {
        match value.kind() {
            Some(Kind::String) => Ok(Word::Text(self.text(key, value)?.to_owned())),
            Some(Kind::Bool) => Ok(Word::Flag(value.bool() == Some(true))),
            Some(Kind::Number) if value.f64().is_some() => Ok(Word::Number(value.f64().unwrap_or(0.0))),
            _ => self.expected(key, value, "a text, a number or a flag"),
        }
    }

    fn expr(&mut self, key: &str, value: Value<'_>) -> Result<Expr> {
        match value.kind() {
            Some(Kind::String) => {
                let expr = self.way(key, value, value.str().unwrap_or_default())?;
                Ok(self.counted(value, expr))
            }
            Some(Kind::Array) if !value.is_empty() => {
                let of = value.elements().map(|one| self.expr(key, one)).collect::<Result<_>>()?;
                Ok(Expr::First(of))
            }
            Some(Kind::Object) => {
                self.table(key, value, &["join", "with"])?;
                let (of, with) = (value.get("join"), value.get("with"));
                if of.is_empty() {
                    return self.expected(&format!("{key}.join"), of, "a list of ways");
                }
                let with = match with.str() {
                    Some(text) => text,
                    None if with.is_absent() => ":",
                    None => return self.expected(&format!("{key}.with"), with, "a text"),
                };
                let of = of.elements().map(|one| self.expr(key, one)).collect::<Result<_>>()?;
                Ok(Expr::Join(of, with.to_owned()))
            }
            _ => self.expected(key, value, "a JSON pointer, or a list of them"),
        }
    }

    /// A way with its number, where it does not say the same whatever is recorded.
    fn counted(&mut self, value: Value<'_>, expr: Expr) -> Expr {
        if matches!(expr, Expr::Constant(_)) {
            return expr;
        }
        let under = |base: &[String], pointer: &Pointer| [base, &pointer.0].concat();
        let mut inner = &expr;
        while let Expr::Hash(of) | Expr::Count(of) = inner {
            inner = of;
        }
        let paths = match inner {
            Expr::Here(pointer) => self.here.iter().map(|base| under(base, pointer)).collect(),
            Expr::Step(pointer) => vec![under(&self.step, pointer)],
            Expr::Slot(at) => match &self.slots[*at] {
                Slot::Record(pointer) => vec![pointer.0.clone()],
                Slot::Up(pointer) => vec![under(&self.up, pointer)],
                Slot::Stem | Slot::Folder | Slot::Place | Slot::Offset => Vec::new(),
            },
            _ => Vec::new(),
        };
        let shown = value.str().unwrap_or_default().to_owned();
        self.ways.push(Way { key: self.key.clone(), shown, paths, reads: Reads::All });
        Expr::Counted(self.ways.len() - 1, Box::new(expr))
    }

    /// A way that is spelt as one text.
    fn way(&mut self, key: &str, value: Value<'_>, text: &str) -> Result<Expr> {
        let pointer = |text: &str| match Pointer::parse(text) {
            Ok(pointer) => Ok(pointer),
            Err(expected) => self.expected(key, value, expected),
        };
        if let Some(constant) = text.strip_prefix('=') {
            return Ok(Expr::Constant(constant.to_owned()));
        }
        if text.is_empty() || text.starts_with('/') {
            let pointer = pointer(text)?;
            let record = self.of_record;
            return Ok(if record { self.slot(Slot::Record(pointer)) } else { Expr::Here(pointer) });
        }
        let Some((word, rest)) = text.split_once(':') else {
            return self.expected(key, value, "a JSON pointer that begins with '/'");
        };
        Ok(match (word, rest) {
            ("up", _) => {
                let pointer = pointer(rest)?;
                self.slot(Slot::Up(pointer))
            }
            ("step", _) if !self.of_record => Expr::Step(pointer(rest)?),
            ("file", "stem") => self.slot(Slot::Stem),
            ("file", "folder") => self.slot(Slot::Folder),
            ("record", "place") => self.slot(Slot::Place),
            ("record", _) => {
                let pointer = pointer(rest)?;
                self.slot(Slot::Record(pointer))
            }
            ("hash", _) => Expr::Hash(Box::new(self.way(key, value, rest)?)),
            ("count", _) => Expr::Count(Box::new(self.way(key, value, rest)?)),
            _ => {
                let ways = [
                    "record:/",
                    "up:/",
                    "step:/",
                    "file:stem",
                    "file:folder",
                    "record:place",
                    "hash:",
                    "count:",
                ];
                return self.error(key, &unknown_name("way", text, &ways));
            }
        })
    }

    fn slot(&mut self, slot: Slot) -> Expr {
        let position = self.slots.iter().position(|one| *one == slot);
        Expr::Slot(position.unwrap_or_else(|| {
            self.slots.push(slot);
            self.slots.len() - 1
        }))
    }

    fn measures(&mut self, name: &str, value: Value<'_>) -> Result<Measures> {
        let mut measures = Measures { named: Vec::new(), rest: None };
        if value.exists() && value.kind() != Some(Kind::Object) {
            return self.expected(name, value, "a table of names");
        }
        for (key, member) in value.members() {
            let field = self.field(&format!("{name}.{key}"), member, None)?;
            match key {
                "" => return self.error(name, "found an empty name, expected the name of a channel"),
                "*" => {
                    let except = field.except.clone();
                    measures.rest = Some((field, except));
                }
                key => measures.named.push((key.to_owned(), field)),
            }
        }
        Ok(measures)
    }

    fn parts(&mut self, name: &str, value: Value<'_>, keys: &[Key]) -> Result<Option<Parts>> {
        if value.is_absent() {
            return Ok(None);
        }
        let each = value.get("each");
        let first = self.ways.len();
        let each = if each.exists() { Some(self.field(&format!("{name}.each"), each, None)?) } else { None };
        // The fields of a list's element lie in it.
        let mut here = self.here.clone();
        if each.is_some() {
            here.clear();
            for way in &mut self.ways[first..] {
                way.reads = Reads::List;
                let elements = way.paths.iter().map(|path| [path.as_slice(), &["*".to_owned()]].concat());
                here.extend(elements);
            }
        }
        let outer = (self.of_record, std::mem::replace(&mut self.here, here));
        self.of_record &= each.is_none();
        let fields = self.section(name, value, keys, &["each"]);
        (self.of_record, self.here) = outer;
        let fields = fields?;
        let needed = match name {
            "step.calls" => Key::Tool,
            "step.results" => Key::Content,
            _ => Key::Label,
        };
        if fields.get(needed).is_none() {
            let key = format!("{name}.{}", needed.as_str());
            return self.error(&key, "found nothing, expected a JSON pointer");
        }
        Ok(Some(Parts { each, fields }))
    }

    fn extras(&mut self, value: Value<'_>) -> Result<Vec<(String, Field)>> {
        if value.exists() && value.kind() != Some(Kind::Object) {
            return self.expected("step.extras", value, "a table of names");
        }
        let mut extras = Vec::new();
        for (key, member) in value.members() {
            let field = self.field(&format!("step.extras.{key}"), member, None)?;
            let name = if key.starts_with("x_") { key.to_owned() } else { format!("x_{key}") };
            let taken = OWN_EXTRAS.contains(&name.as_str()) || !may_be_extra(&name);
            if taken || extras.iter().any(|(known, _)| *known == name) {
                let by = if taken { "events use for something else" } else { "the mapping already uses" };
                let message = format!("found a name that {by} ('{name}'), expected another one");
                return self.error(&format!("step.extras.{key}"), &message);
            }
            extras.push((name, field));
        }
        Ok(extras)
    }
}

impl Spec {
    /// What follows from the whole of it.
    fn settle(&mut self) {
        let step = &self.step;
        // A record that says neither which nor when it is can have happened twice word for word.
        let is_ordered =
            [Key::Id, Key::Order, Key::Time, Key::Start].iter().any(|key| step.get(*key).is_some());
        if self.steps.is_none() && !is_ordered && !self.slots.contains(&Slot::Place) {
            self.slots.push(Slot::Offset);
        }
        let taken: Vec<Vec<String>> = {
            let mut pointers = Vec::new();
            let parts = [&self.trace_labels, &self.calls, &self.results, &self.labels];
            let parts = parts.into_iter().flatten();
            let inside = parts.flat_map(|part| {
                // Where there is a list its fields are in its elements, not here.
                let fields = part.fields.fields.iter().filter(|_| part.each.is_none());
                part.each.iter().chain(fields)
            });
            let measures = [&self.rewards, &self.metrics, &self.costs].into_iter();
            let all = (self.trace.fields.iter())
                .chain(&self.step.fields)
                .chain(inside)
                .chain(measures.flat_map(|m| m.named.iter().map(|(_, field)| field)))
                .chain(self.extras.iter().map(|(_, field)| field));
            all.for_each(|field| field.expr.pointers(&self.slots, &mut pointers));
            let has_own_steps = self.steps.is_none();
            pointers
                .into_iter()
                .filter(|(here, _)| has_own_steps || !here)
                .map(|(_, pointer)| pointer.0.clone())
                .collect()
        };
        for measures in [&mut self.rewards, &mut self.metrics, &mut self.costs] {
            let Some((field, except)) = &mut measures.rest else { continue };
            let mut at = Vec::new();
            field.expr.pointers(&self.slots, &mut at);
            for (_, Pointer(of)) in at {
                let members = taken.iter().filter(|p| p.len() > of.len() && p.starts_with(of));
                except.extend(members.map(|p| p[of.len()].clone()));
            }
            field.expr.counted(&mut |way| self.ways[way].reads = Reads::Numbers(except.clone()));
        }
    }
}
