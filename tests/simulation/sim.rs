//! The handle on the simulated machine.

use std::cell::{RefCell, RefMut};
use std::rc::Rc;
use std::time::Duration;

use ringwall::io::{Address, Fd};
use ringwall::time::Time;

use super::files::File;
use super::kernel::SimDriver;
use super::peer::{Peer, Server};
use super::settings::Settings;
use super::world::{Answer, Sleep, World};

/// A driver's number, in the order they were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DriverId(pub(crate) usize);

/// A simulated machine. Clones are handles on the same one.
#[derive(Clone)]
pub(crate) struct Sim(Rc<RefCell<World>>);

impl Sim {
    pub(crate) fn new(settings: Settings) -> Self {
        Self(Rc::new(RefCell::new(World::new(settings))))
    }

    pub(super) fn world(&self) -> RefMut<'_, World> {
        self.0.borrow_mut()
    }

    /// Another driver of the process under test.
    pub(crate) fn driver(&self) -> SimDriver {
        SimDriver::new(self.clone())
    }

    /// A listening socket of the process under test.
    pub(crate) fn listen(&self, address: &Address) -> Fd {
        self.world().listen(address.clone())
    }

    /// An eventfd of the process under test.
    pub(crate) fn eventfd(&self) -> Fd {
        self.world().files.open(File::Event(0), usize::MAX).expect("no limit was given")
    }

    /// What an eventfd has been notified of since the last call.
    pub(crate) fn take_events(&self, event: Fd) -> u64 {
        std::mem::take(self.world().files.event(event))
    }

    /// A client connects to where the process under test listens. It may write at once; it is refused by a reset.
    pub(crate) fn connect(&self, address: &Address) -> Peer {
        let id = self.world().client(address);
        Peer::new(self.clone(), id)
    }

    /// A server at `address` that accepts connections.
    pub(crate) fn serve(&self, address: &Address) -> Server {
        self.world().serve(address, Answer::Accept);
        Server::new(self.clone(), address.clone())
    }

    /// A connected socket of the process under test, and its peer.
    pub(crate) fn pair(&self) -> (Fd, Peer) {
        let address = Address::Tcp(([127, 0, 0, 1], 1).into());
        let mut world = self.world();
        let id = world.pair(&address);
        let fd = world.open_socket(Some(id.other())).expect("the test leaves room for it");
        drop(world);
        (fd, Peer::new(self.clone(), id))
    }

    /// How many files the process under test may have open from now on.
    pub(crate) fn set_open_files_max(&self, max: usize) {
        self.world().settings.open_files_max = max;
    }

    pub(crate) fn now(&self) -> Time {
        self.world().now()
    }

    /// Whether a driver's user would be running: its last enter did not leave it asleep, or something woke it.
    pub(crate) fn is_runnable(&self, driver: DriverId) -> bool {
        self.world().is_runnable(driver)
    }

    /// When something happens next: on the way, in the kernel, or because a driver slept until then.
    pub(crate) fn next_time(&self) -> Option<Time> {
        let world = self.world();
        let sleeps = world.drivers.iter().filter_map(|driver| match driver.sleep {
            Sleep::Until(time) => Some(time),
            Sleep::Awake | Sleep::Forever => None,
        });
        sleeps.chain(world.next_time()).min()
    }

    /// Whether nothing is on the way and the kernel has nothing left to do.
    pub(crate) fn is_still(&self) -> bool {
        self.world().next_time().is_none()
    }

    /// When a driver's user wakes if nothing happens; `None` when it is awake, or asleep for good.
    pub(crate) fn wakes_at(&self, driver: DriverId) -> Option<Time> {
        match self.world().drivers[driver.0].sleep {
            Sleep::Until(time) => Some(time),
            Sleep::Awake | Sleep::Forever => None,
        }
    }

    /// Moves time to where something happens next. False when nothing ever will.
    pub(crate) fn advance(&self) -> bool {
        let Some(next) = self.next_time() else { return false };
        let now = self.now();
        self.world().advance_to(next.max(now));
        true
    }

    /// Moves time to `time`, with all that happens meanwhile.
    pub(crate) fn advance_to(&self, time: Time) {
        self.world().advance_to(time);
    }

    /// Moves time by `duration`, with all that happens meanwhile.
    pub(crate) fn advance_by(&self, duration: Duration) {
        let until = self.now() + duration;
        self.world().advance_to(until);
    }

    /// Receive buffers that a driver's user holds.
    pub(crate) fn leases(&self, driver: DriverId) -> usize {
        self.world().drivers[driver.0].leases
    }

    /// Operations of a driver that have not ended.
    pub(crate) fn in_flight(&self, driver: DriverId) -> usize {
        self.world().drivers[driver.0].in_flight
    }

    /// How many files the process under test has open.
    pub(crate) fn open_files(&self) -> usize {
        self.world().files.len()
    }

    /// How many sockets of the process under test are open.
    pub(crate) fn open_sockets(&self) -> usize {
        self.world().files.sockets()
    }

    /// How many sockets of the process under test are connected and have `address` as their own, or as their peer's.
    pub(crate) fn sockets_of(&self, address: &Address) -> (usize, usize) {
        self.world().sockets_of(address)
    }

    /// Panics unless every lease is home, nothing is in flight, and every socket is closed.
    pub(crate) fn assert_all_home(&self) {
        let world = self.world();
        for (number, driver) in world.drivers.iter().enumerate() {
            assert!(driver.leases == 0, "driver {number}: {} leases are not home", driver.leases);
            assert!(driver.in_flight == 0, "driver {number}: {} operations in flight", driver.in_flight);
        }
        assert!(world.files.sockets() == 0, "{} sockets are open", world.files.sockets());
    }
}
