//! A record without content: counted, with its links kept for the records that follow it.

/// What is kept of it. Its text is no JSON, so that no line can be taken for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Aside<'a> {
    /// The word that it is counted under.
    pub kind: &'a str,
    pub uuid: &'a str,
    /// The record before it; empty where it has none.
    pub parent: &'a str,
}

impl<'a> Aside<'a> {
    /// Lengths of the first two parts, then all three.
    pub(super) fn text(&self) -> String {
        let Self { kind, uuid, parent } = self;
        format!("{} {} {kind}{uuid}{parent}", kind.len(), uuid.len())
    }

    pub(super) fn of(text: &'a str) -> Option<Self> {
        if text.starts_with('{') {
            return None;
        }
        let mut parts = text.splitn(3, ' ');
        let (kind, uuid) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let (kind, rest) = parts.next()?.split_at_checked(kind)?;
        let (uuid, parent) = rest.split_at_checked(uuid)?;
        Some(Self { kind, uuid, parent })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_kept_is_read_again(kind in "[a-z._]{1,20}", uuid in any::<String>(), parent in any::<String>()) {
            let aside = Aside { kind: &kind, uuid: &uuid, parent: &parent };
            let text = aside.text();
            prop_assert_eq!(Aside::of(&text), Some(aside));
        }

        #[test]
        fn no_line_is_one(text in any::<String>()) {
            let line = format!("{{{text}");
            prop_assert_eq!(Aside::of(&line), None);
        }
    }
}
