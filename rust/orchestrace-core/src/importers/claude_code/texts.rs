//! What a response says: one text, but what follows on something that came back within the response is a text of its own.

use sha2::{Digest, Sha256};

use super::super::recording::{Entry, Saying, Text};
use super::session::{Open, Teller};

/// A piece of what a response says.
pub(super) struct SpokenPiece {
    texts: Vec<Text>,
    item: u32,
    /// Where it stands, if that is not beside its response.
    pub(super) entry: Option<Entry>,
}

impl Teller<'_> {
    /// A text of a response. What it says after something came back within it stands behind that.
    pub(super) fn speaks(&mut self, text: Text, (item, time): (u32, Option<i64>), open: &mut Open) {
        if let Some(piece) = open.pieces.last_mut().filter(|_| !open.is_back) {
            return piece.texts.push(text);
        }
        let entry = std::mem::take(&mut open.is_back).then(|| {
            let id = self.recording.response_mut(open.entry).map_or_else(Text::default, |whole| whole.id);
            let place =
                if open.pieces.is_empty() { String::new() } else { format!(":{}", open.pieces.len()) };
            let id = [self.recording.read(id), &place].concat();
            let id = self.recording.text(&id);
            let saying = Saying { id, time, apart: true, extras: open.extras, ..Saying::default() };
            self.recording.made_of(item);
            self.recording.say(open.entry, saying)
        });
        open.pieces.push(SpokenPiece { texts: vec![text], item, entry });
    }

    /// Tells what a response says, once all of it is known.
    pub(super) fn says_all(&mut self, open: &Open) {
        for piece in &open.pieces {
            let mut sha = Sha256::new();
            piece.texts.iter().for_each(|text| sha.update(self.recording.read(*text)));
            let content = Some(sha.finalize().into());
            if let Some(apart) = piece.entry.and_then(|entry| self.recording.saying_mut(entry)) {
                apart.content = content;
            } else {
                let saying = Saying { content, extras: open.extras, ..Saying::default() };
                self.recording.made_of(piece.item);
                self.recording.say(open.entry, saying);
            }
        }
    }
}
