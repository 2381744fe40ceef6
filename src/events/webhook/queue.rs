//! The events that wait to be sent, in order for each delegate and limited in total.

use std::collections::{BTreeMap, VecDeque};

use crate::events::{Action, EventId};

/// How many events are kept at most.
pub(super) const MAX_EVENTS: usize = 256;
/// How many bytes all their bodies may have together.
const MAX_BYTES: usize = 1024 * 1024;

/// An event in the form that is sent.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) id: EventId,
    pub(super) action: Action,
    pub(super) body: Vec<u8>,
}

/// The events of all delegates, including those that are being sent.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// The waiting messages of each delegate that is being served. Its list may be empty while the last message is sent.
    waiting: BTreeMap<String, VecDeque<Message>>,
    events: usize,
    bytes: usize,
}

impl Queue {
    /// Adds an event, and drops the oldest waiting ones if there is no room. Returns whether the caller must start to
    /// serve the delegate, and how many events were dropped.
    pub(super) fn push(&mut self, container: &str, message: Message) -> (bool, u64) {
        self.events += 1;
        self.bytes += message.body.len();
        let is_new = !self.waiting.contains_key(container);
        self.waiting
            .entry(container.to_owned())
            .or_default()
            .push_back(message);
        let mut dropped = 0;
        while (self.events > MAX_EVENTS || self.bytes > MAX_BYTES) && self.drop_oldest() {
            dropped += 1;
        }
        (is_new, dropped)
    }

    /// Drops the oldest waiting event of the delegate with the most waiting bytes.
    fn drop_oldest(&mut self) -> bool {
        let bytes =
            |waiting: &VecDeque<Message>| waiting.iter().map(|message| message.body.len()).sum::<usize>();
        let fullest = self.waiting.values_mut().max_by_key(|waiting| bytes(waiting));
        let oldest = fullest.and_then(VecDeque::pop_front);
        oldest.inspect(|message| self.sent(message)).is_some()
    }

    /// The next event of a delegate, which counts until it is [`sent`](Self::sent). `None` ends the delegate's service.
    pub(super) fn next(&mut self, container: &str) -> Option<Message> {
        let next = self.waiting.get_mut(container)?.pop_front();
        if next.is_none() {
            self.waiting.remove(container);
        }
        next
    }

    /// Stops counting an event that was sent or dropped.
    pub(super) fn sent(&mut self, message: &Message) {
        self.events -= 1;
        self.bytes -= message.body.len();
    }

    /// Drops all waiting events. Returns how many there were.
    pub(super) fn clear(&mut self) -> u64 {
        let mut cleared = 0;
        while self.drop_oldest() {
            cleared += 1;
        }
        cleared
    }

    /// How many events there are, including those that are being sent.
    pub(super) fn len(&self) -> usize {
        self.events
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(number: usize, bytes: usize) -> Message {
        Message {
            id: EventId::of(Action::Upgraded, &[&number.to_string()]),
            action: Action::Upgraded,
            body: vec![b'x'; bytes],
        }
    }

    /// The lengths of the waiting bodies of a delegate, in order.
    fn drain(queue: &mut Queue, container: &str) -> Vec<usize> {
        let next = || queue.next(container).inspect(|message| queue.sent(message));
        std::iter::from_fn(next)
            .map(|message| message.body.len())
            .collect()
    }

    #[test]
    fn full_queue_drops_oldest_event_of_fullest_delegate() {
        let mut queue = Queue::default();
        assert_eq!(queue.push("quiet", message(0, 1)), (true, 0));
        for number in 1..MAX_EVENTS {
            assert_eq!(queue.push("loud", message(number, number)), (number == 1, 0));
        }
        assert_eq!(queue.push("new", message(900, 900)), (true, 1));
        assert_eq!(queue.push("loud", message(901, 901)), (false, 1));
        assert_eq!(queue.len(), MAX_EVENTS);
        assert_eq!(drain(&mut queue, "quiet"), [1]);
        assert_eq!(drain(&mut queue, "new"), [900]);
        let loud: Vec<usize> = (3..MAX_EVENTS).chain([901]).collect();
        assert_eq!(drain(&mut queue, "loud"), loud);
        assert_eq!((queue.len(), queue.bytes), (0, 0));
    }

    #[test]
    fn large_events_also_fill_the_queue_including_the_one_being_sent() {
        let mut queue = Queue::default();
        let half = MAX_BYTES / 2;
        queue.push("d1", message(1, half));
        let sending = queue.next("d1").unwrap();
        assert_eq!(queue.push("d1", message(2, half)), (false, 0));
        assert_eq!(queue.push("d1", message(3, half)), (false, 1));
        // An event that does not fit is dropped at once.
        assert_eq!(queue.push("d2", message(4, MAX_BYTES)), (true, 1));
        queue.sent(&sending);
        assert_eq!(drain(&mut queue, "d1"), [half]);
        assert_eq!((queue.len(), queue.bytes), (0, 0));
        // The delegate is no longer served.
        assert_eq!(queue.push("d1", message(5, 1)), (true, 0));
        assert_eq!(queue.clear(), 1);
    }
}
