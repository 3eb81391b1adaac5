//! Enums whose variants each have a name in logs and metrics, and a place among all of them.

/// Declares such an enum: each variant once, with its meaning and its name behind `=`.
macro_rules! labelled {
    (
        $(#[$attribute:meta])*
        pub enum $name:ident { $($(#[$doc:meta])* $variant:ident $(($payload:ty))? = $label:literal,)* }
    ) => {
        $(#[$attribute])*
        pub enum $name {
            $($(#[$doc])* $variant $(($payload))?,)*
        }

        impl $name {
            /// All names, each at its [`index`](Self::index).
            pub const LABELS: &'static [&'static str] = &[$($label),*];

            /// A short name that stays the same over versions: the field of logs, and the label of metrics.
            #[must_use]
            pub const fn label(self) -> &'static str {
                Self::LABELS[self.index()]
            }

            /// Its place among all of them.
            #[must_use]
            pub const fn index(self) -> usize {
                enum Place { $($variant),* }
                match self {
                    $(Self::$variant { .. } => Place::$variant as usize,)*
                }
            }
        }
    };
}

pub(crate) use labelled;
