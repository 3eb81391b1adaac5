//! Clients that come, ask once and leave.

use std::time::Duration;

use crate::arrivals::{Crowd, Manner, Pace};
use crate::cases::Kind;
use crate::peer::Role;
use crate::stage::{Findings, Stage};

/// New clients that wait at once.
const WAITING: usize = 32;

impl Stage {
    pub(crate) fn handshakes(&self, kind: Kind, resumed: bool) -> Findings {
        let names = ["per proxy CPU s", "with server's", "connections/s", "closed"];
        let config = if resumed { self.credentials.resuming() } else { self.credentials.client.clone() };
        self.rounds(kind, self.rounds, names, |_, program| {
            let crowd = || Crowd::new(program.address, &config, Manner::Asking);
            crowd().run_for(self.took / 5, Pace::Waiting(WAITING));
            let (spent, fates) = self.spent(program, || crowd().run_for(self.took, Pace::Waiting(WAITING)));
            let served = fates.served as f64;
            let per = |cpu: Duration| served / cpu.as_secs_f64();
            let per_second = served / spent.took.as_secs_f64();
            // No proxy is there that could take any.
            let of_proxy = if program.role == Role::Direct { f64::NAN } else { per(spent.proxy) };
            [of_proxy, per(spent.proxy + spent.server), per_second, fates.closed as f64]
        })
    }
}
