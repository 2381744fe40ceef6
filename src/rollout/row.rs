//! Which row of docs/development/rollout.md decides.

use std::fmt;

use chrono::{DateTime, Utc};

use super::reason::Reason;
use super::{Decided, Decision, Fact, Step};

/// Declares [`Row`], a table to a line.
macro_rules! rows {
    ($($row:ident)+) => {
        /// A row of one of the tables in docs/development/rollout.md, by its id: the table's letter, and its number
        /// in it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs, reason = "the page says what each row is about")]
        pub enum Row { $($row),+ }

        impl Row {
            /// All of them, table by table, in the order of the page.
            pub const ALL: &[Self] = &[$(Self::$row),+];
        }
    };
}

rows! {
    Q1 Q2 Q3 Q4 Q5 Q6 Q7
    F1 F2 F3 F4 F5 F6 F7
    D1 D2 D3 D4 D5 D6 D7
    S1 S2 S3 S4 S5 S6 S7 S8 S9 S10 S11 S12 S13 S14 S15 S16 S17 S18 S19 S20 S21 S22 S23 S24 S25 S26 S27
    H1 H2 H3 H4 H5 H6 H7 H8 H9 H10 H11 H12 H13 H14
    B1 B2 B3 B4 B5 B6 B7 B8 B9 B10
    C1 C2 C3 C4 C5 C6 C7 C8 C9 C10 C11 C12 C13
    V1 V2 V3 V4 V5 V6
    N1 N2 N3 N4 N5 N6 N7 N8 N9 N10 N11 N12 N13 N14 N15 N16
    R1 R2 R3 R4 R5
    A1 A2 A3 A4 A5 A6 A7 A8 A9 A10 A11 A12
    O1 O2 O3 O4 O5 O6 O7 O8 O9 O10
    Y1 Y2 Y3 Y4 Y5 Y6 Y7 Y8
    Z1
    P1 P2 P3 P4 P5 P6 P7 P8
    G1 G2 G3 G4 G5 G6
    E1 E2 E3 E4
    J1 J2 J3 J4 J5 J6 J7 J8
    L1 L2
    X1 X2 X3 X4 X5 X6 X7 X8 X9 X10 X11 X12
    M1 M2
    U1 U2 U3 U4 U5
    T1 T2 T3 T4 T5 T6
    K1 K2 K3
    W1 W2
}

impl Row {
    pub(super) fn act(self, step: Step) -> Decided {
        self.decide(Decision::Act(step))
    }

    /// What comes first, where there is such a thing, and then the step.
    pub(super) fn after(self, first: Option<Decided>, step: impl FnOnce() -> Step) -> Decided {
        match first {
            Some(first) => self.see(first),
            None => self.act(step()),
        }
    }

    pub(super) fn learn(self, fact: Fact) -> Decided {
        self.decide(Decision::Learn(fact))
    }

    pub(super) fn wait(self, reason: Reason, until: DateTime<Utc>) -> Decided {
        self.decide(Decision::Wait { reason, until })
    }

    pub(super) fn rest(self, reason: Reason) -> Decided {
        self.decide(Decision::Rest(reason))
    }

    /// What another table says.
    pub(super) fn see(self, mut table: Decided) -> Decided {
        table.rows.insert(0, self);
        table
    }

    fn decide(self, decision: Decision) -> Decided {
        let rows = vec![self];
        Decided { rows, decision }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
