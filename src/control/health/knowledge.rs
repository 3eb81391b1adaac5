//! Which server is the primary, as several Sentinels tell it that do not all know the same.
//!
//! Each failover raises the epoch of the primary's configuration, so of two answers the one with the higher epoch is the
//! newer. A Sentinel that was cut off goes on telling what it knew; its word counts and is outvoted by the epoch of any
//! other. A dead one's word counts too, for a while: the last to know of a switch may have died of the same cause.
//!
//! What a Sentinel publishes has no epoch, so a message is only a reason to ask; the answer is what counts.
//!
//! Invariants: an answer with an older epoch than a word that counts is never believed; and what is believed is given up
//! only for something else, never for nothing.

use std::time::Duration;

use super::sentinel::{Told, Whereabouts};
use crate::time::Time;

/// How long the word of a Sentinel that does not answer counts. Far above any failover; it ends because a host that is
/// gone for good must not outvote those whose configuration was made anew, and whose epochs begin at 0.
const WORD_LIFETIME: Duration = Duration::from_secs(10 * 60);

/// What is believed, and which epoch it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Belief {
    pub(super) at: Whereabouts,
    pub(super) epoch: u64,
}

/// How far a Sentinel can be relied on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contact {
    /// It was not asked yet.
    Unasked,
    /// It answers.
    Answers,
    /// It answers and knows no primary by the name.
    UnknownName,
    /// It does not answer, or not as a Sentinel: why.
    Trouble(String),
}

#[derive(Debug)]
struct Entry {
    contact: Contact,
    /// Its last word, and when it was given.
    word: Option<(Belief, Time)>,
}

/// All that is known of one primary.
#[derive(Debug)]
pub(super) struct Knowledge {
    sentinels: Vec<Entry>,
    belief: Option<Belief>,
}

impl Knowledge {
    /// Nothing yet, from this many Sentinels.
    pub(super) fn new(sentinels: usize) -> Self {
        let entry = || Entry { contact: Contact::Unasked, word: None };
        Self { sentinels: std::iter::repeat_with(entry).take(sentinels).collect(), belief: None }
    }

    /// What is believed.
    pub(super) const fn belief(&self) -> Option<&Belief> {
        self.belief.as_ref()
    }

    /// How far each Sentinel can be relied on.
    pub(super) fn contacts(&self) -> impl Iterator<Item = &Contact> {
        self.sentinels.iter().map(|entry| &entry.contact)
    }

    /// Whether each Sentinel that answers knows no primary by the name, and there is one that does answer.
    pub(super) fn name_is_unknown(&self) -> bool {
        self.contacts().any(|contact| *contact == Contact::UnknownName)
            && self.contacts().all(|contact| *contact != Contact::Answers)
    }

    /// A Sentinel has answered, or has not. Whether its contact has changed.
    pub(super) fn note(&mut self, sentinel: usize, told: Told, now: Time) -> bool {
        let entry = &mut self.sentinels[sentinel];
        let contact = match told {
            Told::Primary { at, epoch } => {
                entry.word = Some((Belief { at, epoch }, now));
                Contact::Answers
            }
            Told::UnknownName => {
                entry.word = None;
                Contact::UnknownName
            }
            Told::Trouble(why) => Contact::Trouble(why),
        };
        let changed = entry.contact != contact;
        entry.contact = contact;
        self.believe(now);
        changed
    }

    /// Draws the conclusion from all words that count.
    fn believe(&mut self, now: Time) {
        let counts = |entry: &&Entry| entry.contact == Contact::Answers || entry.is_young(now);
        let words: Vec<_> = self.sentinels.iter().filter(counts).filter_map(|entry| entry.word.as_ref()).collect();
        let Some(newest) = words.iter().map(|(word, _)| word.epoch).max() else { return };
        let newest: Vec<_> = words.iter().map(|(word, _)| word).filter(|word| word.epoch == newest).collect();
        // One epoch has one primary, unless somebody has changed the configurations by hand.
        let held = self.belief.as_ref().filter(|held| newest.iter().any(|word| word.at == held.at));
        let votes = |at: &Whereabouts| newest.iter().filter(|word| word.at == *at).count();
        let at = held.map(|held| &held.at).or_else(|| newest.iter().map(|word| &word.at).max_by_key(|at| votes(at)));
        if let Some(at) = at.cloned() {
            self.belief = Some(Belief { at, epoch: newest[0].epoch });
        }
    }
}

impl Entry {
    fn is_young(&self, now: Time) -> bool {
        self.word.as_ref().is_some_and(|(_, heard)| now.since(*heard) < WORD_LIFETIME)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: Time = Time::from_nanos(0);

    fn at(port: u16) -> Whereabouts {
        Whereabouts { host: "10.0.0.1".into(), port }
    }

    fn told(port: u16, epoch: u64) -> Told {
        Told::Primary { at: at(port), epoch }
    }

    fn answer(knowledge: &mut Knowledge, sentinel: usize, told: Told) -> Option<(u16, u64)> {
        knowledge.note(sentinel, told, NOW);
        believed(knowledge)
    }

    fn believed(knowledge: &Knowledge) -> Option<(u16, u64)> {
        knowledge.belief().map(|belief| (belief.at.port, belief.epoch))
    }

    #[test]
    fn the_highest_epoch_is_believed_whoever_has_it() {
        let mut knowledge = Knowledge::new(3);
        assert_eq!(believed(&knowledge), None);
        assert_eq!(answer(&mut knowledge, 0, told(1, 4)), Some((1, 4)));
        assert_eq!(answer(&mut knowledge, 1, told(2, 5)), Some((2, 5)));
        // The third has not heard of it yet.
        assert_eq!(answer(&mut knowledge, 2, told(1, 4)), Some((2, 5)));
        assert_eq!(answer(&mut knowledge, 0, told(2, 5)), Some((2, 5)));
    }

    #[test]
    fn the_word_of_a_dead_sentinel_counts_for_a_while() {
        let mut knowledge = Knowledge::new(2);
        answer(&mut knowledge, 0, told(2, 5));
        answer(&mut knowledge, 0, Told::Trouble("refused".into()));
        knowledge.note(1, told(1, 4), NOW + Duration::from_secs(599));
        assert_eq!(believed(&knowledge), Some((2, 5)));
        knowledge.note(1, told(1, 4), NOW + Duration::from_secs(600));
        assert_eq!(believed(&knowledge), Some((1, 4)));
    }

    #[test]
    fn configurations_made_anew_are_believed_once_all_have_them() {
        let mut knowledge = Knowledge::new(2);
        answer(&mut knowledge, 0, told(1, 7));
        answer(&mut knowledge, 1, told(1, 7));
        assert_eq!(answer(&mut knowledge, 0, told(2, 0)), Some((1, 7)));
        assert_eq!(answer(&mut knowledge, 1, told(2, 0)), Some((2, 0)));
    }

    #[test]
    fn of_two_primaries_with_one_epoch_the_one_that_is_held_stays_while_anybody_names_it() {
        let mut knowledge = Knowledge::new(3);
        answer(&mut knowledge, 0, told(1, 0));
        answer(&mut knowledge, 1, told(2, 0));
        assert_eq!(answer(&mut knowledge, 2, told(2, 0)), Some((1, 0)));
        assert_eq!(answer(&mut knowledge, 0, told(3, 0)), Some((2, 0)));
    }

    #[test]
    fn a_name_is_unknown_when_nobody_who_answers_knows_it_and_the_last_primary_stays() {
        let mut knowledge = Knowledge::new(3);
        assert!(!knowledge.name_is_unknown());
        answer(&mut knowledge, 0, Told::Trouble("refused".into()));
        assert!(!knowledge.name_is_unknown());
        answer(&mut knowledge, 1, told(1, 4));
        answer(&mut knowledge, 2, Told::UnknownName);
        assert!(!knowledge.name_is_unknown());
        assert_eq!(answer(&mut knowledge, 1, Told::UnknownName), Some((1, 4)));
        assert!(knowledge.name_is_unknown());
    }

    proptest! {
        /// Sentinels that only ever learn newer configurations, and tell them late or never.
        #[test]
        fn what_is_believed_never_gets_older(
            steps in proptest::collection::vec((0_usize..3, 0_u64..4, any::<bool>(), any::<bool>()), 1..80),
        ) {
            let mut knowledge = Knowledge::new(3);
            let mut epochs = [0_u64; 3];
            // What each has answered and is still on its way.
            let mut answers = [0_u64; 3];
            let mut newest = 0;
            for (sentinel, more, arrives, fails) in steps {
                epochs[sentinel] += more;
                if arrives {
                    // The primary of an epoch is at the port of its number.
                    let epoch = answers[sentinel];
                    knowledge.note(sentinel, told(u16::try_from(epoch).unwrap() + 1, epoch), NOW);
                    answers[sentinel] = epochs[sentinel];
                } else if fails {
                    knowledge.note(sentinel, Told::Trouble("refused".into()), NOW);
                }
                if let Some(belief) = knowledge.belief() {
                    prop_assert!(belief.epoch >= newest, "{} after {}", belief.epoch, newest);
                    prop_assert_eq!(u64::from(belief.at.port), belief.epoch + 1);
                    newest = belief.epoch;
                }
            }
        }
    }
}
