//! Room for the objects that a plan keeps in memory.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use serde::Serialize;

/// Room for objects of one kind.
///
/// Each object takes some kilobytes, whatever its text, and its text besides. So both are counted.
pub(super) struct Room {
    objects: AtomicUsize,
    bytes: AtomicUsize,
}

impl Room {
    /// Returns room for so many objects, whose text as JSON has so many bytes.
    pub(super) fn new(objects: usize, bytes: usize) -> Self {
        Self { objects: AtomicUsize::new(objects), bytes: AtomicUsize::new(bytes) }
    }

    /// Takes the room of an object. Returns false when there is not enough left.
    pub(super) fn take(&self, object: &impl Serialize) -> bool {
        let bytes = serde_json::to_vec(object).map_or(usize::MAX, |text| text.len());
        take(&self.objects, 1) && take(&self.bytes, bytes)
    }
}

fn take(left: &AtomicUsize, wanted: usize) -> bool {
    left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(wanted)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_ends_with_the_number_of_objects_or_with_their_size() {
        let taken = |room: Room, object: &str| (0..10).filter(|_| room.take(&object)).count();
        assert_eq!(taken(Room::new(3, 100), "x"), 3, "three objects");
        assert_eq!(taken(Room::new(10, 100), &"x".repeat(38)), 2, "twice 40 bytes with the quotes");
    }
}
