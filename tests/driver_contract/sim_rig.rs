//! The simulated machine. Some of its worlds are slow; nothing fails in them by chance.

use std::time::Duration;

use ringwall::io::{Address, Errno, Fd};

use crate::rig::{Got, LARGE_BUFFER_BYTES, LARGE_BUFFERS, Machine, Peer, SMALL_BUFFER_BYTES, SMALL_BUFFERS};
use crate::simulation::{self, Read, Server, Settings, Sim, SimDriver};

pub(crate) struct SimMachine {
    pub(crate) sim: Sim,
    driver: SimDriver,
    second: Option<SimDriver>,
    server: Option<Server>,
    ports: u16,
}

pub(crate) fn settings(seed: u64) -> Settings {
    let delay = Duration::from_micros(100 * (seed % 4));
    Settings {
        small_buffers: u16::try_from(SMALL_BUFFERS).unwrap(),
        small_buffer_bytes: SMALL_BUFFER_BYTES,
        large_buffers: u16::try_from(LARGE_BUFFERS).unwrap(),
        large_buffer_bytes: LARGE_BUFFER_BYTES,
        submissions: 8,
        network_delay_max: delay,
        kernel_delay_max: delay,
        enter_advances_time: true,
        leases_home_each_turn: false,
        ..Settings::calm(seed)
    }
}

impl SimMachine {
    pub(crate) fn new(seed: u64) -> Self {
        Self::with(settings(seed))
    }

    pub(crate) fn with(settings: Settings) -> Self {
        let sim = Sim::new(settings);
        let driver = sim.driver();
        Self { sim, driver, second: None, server: None, ports: 1000 }
    }

    fn address(&mut self) -> Address {
        self.ports += 1;
        Address::Tcp(([127, 0, 0, 1], self.ports).into())
    }
}

impl Machine for SimMachine {
    type Driver = SimDriver;
    type Peer = SimPeer;

    fn driver(&mut self) -> &mut SimDriver {
        &mut self.driver
    }

    fn second(&mut self) -> &mut SimDriver {
        self.second.get_or_insert_with(|| self.sim.driver())
    }

    fn pair_over(&mut self, _: bool) -> (Fd, SimPeer) {
        let (near, far) = self.sim.pair();
        (near, SimPeer(far))
    }

    fn listen(&mut self) -> (Fd, Address) {
        let address = self.address();
        (self.sim.listen(&address), address)
    }

    fn client(&mut self, address: &Address) -> SimPeer {
        SimPeer(self.sim.connect(address))
    }

    fn serve(&mut self, unix: bool) -> Address {
        let address = if unix { Address::Unix("/run/server.sock".into()) } else { self.address() };
        self.server = Some(self.sim.serve(&address));
        address
    }

    fn accepted(&mut self) -> Option<SimPeer> {
        self.server.as_ref()?.accept().map(SimPeer)
    }

    fn refusing(&mut self) -> Address {
        self.address()
    }

    fn silent(&mut self) -> Address {
        let address = self.address();
        let server = self.sim.serve(&address);
        server.ignore();
        address
    }

    fn eventfd(&mut self) -> Fd {
        self.sim.eventfd()
    }

    fn take_events(&mut self, event: Fd) -> u64 {
        self.sim.take_events(event)
    }

    fn too_much(&self) -> usize {
        400 * 1024
    }
}

pub(crate) struct SimPeer(pub(crate) simulation::Peer);

impl Peer for SimPeer {
    fn write(&mut self, bytes: &[u8]) -> usize {
        self.0.write(bytes).unwrap()
    }

    fn read(&mut self) -> Got {
        match self.0.read(64 * 1024) {
            Read::Bytes(bytes) => Got::Bytes(bytes),
            Read::Nothing => Got::Nothing,
            Read::End => Got::End,
            Read::Failed(errno) => {
                assert_eq!(errno, Errno(libc::ECONNRESET));
                Got::Reset
            }
        }
    }

    fn shutdown_write(&mut self) {
        self.0.shutdown_write();
    }

    fn close(self) {
        self.0.close();
    }

    fn address(&self) -> Option<std::net::SocketAddr> {
        self.0.address()
    }
}
