//! The shape of a record: its keys, and the kinds of their values.

use super::Confidence;
use crate::error::{Reject, RejectCode};
use crate::json::Kind;
use crate::json::tree::Value;

/// How sure the keys of a record make: all of them are there, all but one, or fewer.
pub(super) fn sure_by_keys(record: Value<'_>, keys: &[&str]) -> Confidence {
    match keys.iter().filter(|key| record.get(key).is_absent()).count() {
        0 => Confidence::Yes,
        1 => Confidence::Maybe,
        _ => Confidence::No,
    }
}

/// Rejects a record at `path` that is no object.
pub(super) fn expect_object(record: Value<'_>, path: &str) -> Result<(), Reject> {
    if record.kind() == Some(Kind::Object) {
        return Ok(());
    }
    let kind = record.kind().map_or("nothing", Kind::as_str);
    Err(Reject::new(RejectCode::RecordNotObject, path, format!("found {kind}, expected an object")))
}

/// Rejects a record without a member of this key, and one whose member is not of this kind.
pub(super) fn expect_member(record: Value<'_>, key: &str, kind: Kind) -> Result<(), Reject> {
    let code = match record.get(key).kind() {
        Some(kind_of_value) if kind_of_value == kind => return Ok(()),
        Some(_) => RejectCode::FieldType,
        None => RejectCode::FieldMissing,
    };
    let kind_of_value = record.get(key).kind().map_or("nothing", Kind::as_str);
    Err(Reject::new(code, format!("/{key}"), format!("found {kind_of_value}, expected {}", kind.as_str())))
}
