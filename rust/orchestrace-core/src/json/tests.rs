use super::*;
use proptest::prelude::*;

const LIMITS: Limits = Limits { depth: 128, string: 1 << 20, lenient: false };

fn skip(text: &str) -> Parsed<()> {
    let mut cursor = Cursor::new(text, LIMITS);
    cursor.ws();
    cursor.skip()?;
    cursor.end()
}

#[test]
fn numbers_are_exact() {
    for raw in [
        "0",
        "-0",
        "1",
        "0.1",
        "-12.5e3",
        "1e22",
        "1e23",
        "9007199254740993",
        "123456789012345678901",
        "5e-324",
        "1.7976931348623157e308",
        "0.30000000000000004",
    ] {
        let number = Cursor::new(raw, LIMITS).number().unwrap();
        assert_eq!(number.f64().unwrap().to_bits(), raw.parse::<f64>().unwrap().to_bits(), "{raw}");
    }
    assert_eq!(
        Cursor::new("1e400", LIMITS).number().unwrap().f64().unwrap_err().code,
        RejectCode::NumberRange
    );
}

#[test]
fn rounding_is_noticed() {
    let rounded = |raw: &str| {
        let number = Cursor::new(raw, LIMITS).number().unwrap();
        number.is_rounded(number.f64().unwrap())
    };
    assert!(rounded("9007199254740993"));
    assert!(!rounded("9007199254740992"));
    assert!(!rounded("9007199254740994"));
    assert!(!rounded("1e30"));
    assert!(rounded("100000000000000000000000"));
    assert!(!rounded("100000000000000000000"));
}

#[test]
fn integers_may_be_spelled_as_floats() {
    let int = |raw: &str| Cursor::new(raw, LIMITS).number().unwrap().u63();
    assert_eq!(int("3.0"), Some(3));
    assert_eq!(int("3e2"), Some(300));
    assert_eq!(int("3.5"), None);
    assert_eq!(int("-1"), None);
    assert_eq!(int("-0"), Some(0));
    assert_eq!(int("1e18"), Some(1_000_000_000_000_000_000));
    assert_eq!(int("2500e-2"), Some(25));
    assert_eq!(int("1e19"), None);
    assert_eq!(int("0e99"), Some(0));
    assert_eq!(int("9223372036854775808"), None);
    assert_eq!(int("9223372036854775807"), Some(i64::MAX));
    let signed = |raw: &str| Cursor::new(raw, LIMITS).number().unwrap().i64();
    assert_eq!(signed("-9223372036854775808"), Some(i64::MIN));
    assert_eq!(signed("-9223372036854775809"), None);
    assert_eq!(signed("-30e-1"), Some(-3));
    assert_eq!(signed("-1e400"), None);
}

#[test]
fn strings_unescape() {
    let mut cursor = Cursor::new(r#""a\n\u00e9\ud83e\udd16\/""#, LIMITS);
    let mut scratch = String::new();
    assert_eq!(cursor.string().unwrap().text(&mut scratch), "a\né🤖/");
    assert_eq!(skip(r#""\ud800""#).unwrap_err().code, RejectCode::Utf8Invalid);
    assert_eq!(skip(r#""\udc00x""#).unwrap_err().code, RejectCode::Utf8Invalid);
    assert_eq!(skip("\"a\u{1}\"").unwrap_err().code, RejectCode::JsonSyntax);
}

/// Where a string ends and whether it has escapes and halves of surrogates, byte by byte; or what is wrong where.
fn end_by_bytes(text: &str, limits: Limits) -> Result<(usize, bool, bool), (RejectCode, Option<usize>)> {
    let mut cursor = Cursor::new(text, limits);
    let (mut at, mut escaped) = (1, false);
    loop {
        match text.as_bytes().get(at) {
            None => return Err((RejectCode::JsonSyntax, Some(text.len()))),
            Some(b'"') => return Ok((at, escaped, cursor.replaced)),
            Some(b'\\') => {
                escaped = true;
                at = cursor.escape(at).map_err(|fault| (fault.code, fault.at))?;
            }
            Some(0..0x20) => return Err((RejectCode::JsonSyntax, Some(at))),
            Some(_) => at += 1,
        }
    }
}

fn ends_alike(text: &str) {
    for limits in [LIMITS, Limits { lenient: true, ..LIMITS }] {
        let mut cursor = Cursor::new(text, limits);
        let end = cursor.string_end(1).map_err(|fault| (fault.code, fault.at));
        let end = end.map(|(at, escaped)| (at, escaped, cursor.replaced));
        assert_eq!(end, end_by_bytes(text, limits), "{text:?}");
    }
}

const PIECES: [&str; 14] = [
    "a",
    r"\n",
    r"\\",
    r#"\""#,
    r"\t",
    r"\u00e9",
    r"\ud83d\ude00",
    r"\ud800",
    r"\udc00",
    r"\x",
    "\u{1}",
    "\"",
    "é",
    r"\",
];

#[test]
fn strings_end_where_they_do_byte_by_byte_wherever_chunks_are_cut() {
    for pad in 0..140 {
        for piece in PIECES {
            for other in PIECES {
                for rest in
                    ["", "\"", " and a text that is longer than a chunk of sixty-four bytes, to its end\",1]"]
                {
                    ends_alike(&["\"", &"x".repeat(pad), piece, other, rest].concat());
                }
            }
        }
    }
}

#[test]
fn depth_is_limited() {
    let nested = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
    assert!(skip(&nested(128)).is_ok());
    assert_eq!(skip(&nested(129)).unwrap_err().code, RejectCode::JsonDepth);
    assert_eq!(skip(&"[".repeat(100_000)).unwrap_err().code, RejectCode::JsonDepth);
}

#[test]
fn skipping_passes_what_python_writes_where_that_is_allowed() {
    let text = r#"{"a":[NaN,-Infinity,-1],"b":Infinity}"#;
    assert_eq!(skip(text).unwrap_err().code, RejectCode::NumberNan);
    let mut cursor = Cursor::new(text, Limits { lenient: true, ..LIMITS });
    assert_eq!(cursor.skip().unwrap(), (0, text.len()));
    assert!(Cursor::new("[Nan]", Limits { lenient: true, ..LIMITS }).skip().is_err());
}

proptest! {
    #[test]
    fn skipping_accepts_what_serde_json_accepts(text in r#"[\[\]{}",:0-9eE.+\-tfnrualse \\]{0,24}"#) {
        let reference = serde_json::from_str::<serde_json::Value>(&text);
        prop_assert_eq!(skip(&text).is_ok(), reference.is_ok(), "{}", text);
    }

    #[test]
    fn strings_of_any_pieces_end_where_they_do_byte_by_byte(
        pieces in prop::collection::vec((0..PIECES.len(), 0..40_usize), 0..40),
        faults in any::<bool>(),
    ) {
        let most = if faults { PIECES.len() } else { 7 };
        let pieces = pieces.iter().map(|(piece, pad)| ["y".repeat(*pad), PIECES[piece % most].into()].concat());
        ends_alike(&["\"", &pieces.collect::<String>(), "\""].concat());
    }

    #[test]
    fn strings_survive_a_round_trip(text in any::<String>()) {
        let mut out = Vec::new();
        write_string(&text, &mut out);
        let written = String::from_utf8(out).unwrap();
        prop_assert_eq!(serde_json::from_str::<String>(&written).unwrap(), text.clone());
        let mut scratch = String::new();
        prop_assert_eq!(Cursor::new(&written, LIMITS).string().unwrap().text(&mut scratch), text);
    }

    #[test]
    fn floats_equal_the_standard_library(value in any::<f64>().prop_filter("finite", |v| v.is_finite())) {
        let raw = serde_json::to_string(&value).unwrap();
        let number = Cursor::new(&raw, LIMITS).number().unwrap();
        prop_assert_eq!(number.f64().unwrap().to_bits(), raw.parse::<f64>().unwrap().to_bits());
    }
}
