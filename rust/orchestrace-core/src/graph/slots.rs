//! Dense numbers for the dictionary codes of one trace.
//!
//! Codes belong to the whole store and are large; a trace names few of them. The table is indexed by code and
//! stamped with the trace's epoch, so that beginning the next trace costs nothing, whatever the dictionary's size.

/// A map from codes to numbers that is emptied in constant time.
#[derive(Debug, Default)]
pub struct Slots {
    entries: Vec<(u32, u32)>,
    epoch: u32,
}

impl Slots {
    /// Forgets everything.
    pub fn begin(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
        if self.epoch == 0 {
            // 2^32 traces later an old stamp could look like a new one
            self.entries.fill((0, 0));
            self.epoch = 1;
        }
    }

    /// The number of a code.
    #[must_use]
    #[inline]
    pub fn get(&self, code: u32) -> Option<u32> {
        self.entries.get(code as usize).filter(|e| e.0 == self.epoch).map(|e| e.1)
    }

    /// Sets the number of a code.
    #[inline]
    pub fn set(&mut self, code: u32, number: u32) {
        let at = code as usize;
        if at >= self.entries.len() {
            self.entries.resize(at + 1, (0, 0));
        }
        self.entries[at] = (self.epoch, number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forgets_between_traces_and_when_the_epoch_wraps() {
        let mut slots = Slots::default();
        slots.begin();
        assert_eq!(slots.get(7), None);
        slots.set(7, 3);
        assert_eq!((slots.get(7), slots.get(6), slots.get(99)), (Some(3), None, None));
        slots.begin();
        assert_eq!(slots.get(7), None);
        slots.set(7, 4);
        slots.epoch = u32::MAX;
        slots.begin();
        assert_eq!((slots.get(7), slots.epoch), (None, 1));
    }
}
