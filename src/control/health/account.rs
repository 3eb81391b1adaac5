//! Who the control plane is to servers or Sentinels, with a password that may change while it runs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::task::spawn_blocking;

use super::answer::login_problem;
use super::dialog::Login;
use super::link::{Link, LinkError};
use crate::config;
use crate::secret::Secret;

/// A user and the password from its file.
#[derive(Debug)]
pub(super) struct Account {
    login: Option<config::Login>,
    password: Mutex<Option<Secret>>,
    refreshing: AtomicBool,
}

impl Account {
    /// `password` is what was read at start.
    pub(super) fn new(login: Option<config::Login>, password: Option<Secret>) -> Self {
        Self { login, password: Mutex::new(password), refreshing: AtomicBool::new(false) }
    }

    /// What to say to a server first, where there is something.
    pub(super) fn login(&self) -> Option<Login> {
        let username = self.login.as_ref()?.username.clone();
        let password = self.password.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        Some(Login { username, password })
    }

    /// The password was not taken: has its file read again, for the next time. What cannot be read stays as it was.
    ///
    /// Returns at once, and reads on another thread: the file may be on a disk that hangs, which says nothing about a
    /// server. One reading is under way at most.
    pub(super) fn refresh(self: &Arc<Self>) {
        let Some(login) = &self.login else { return };
        if self.refreshing.swap(true, Ordering::Relaxed) {
            return;
        }
        let (path, account) = (login.password_file.clone(), Arc::clone(self));
        spawn_blocking(move || {
            if let Ok(password) = Secret::load(&path) {
                *account.password.lock().unwrap_or_else(PoisonError::into_inner) = Some(password);
            }
            account.refreshing.store(false, Ordering::Relaxed);
        });
    }

    /// Logs in on a fresh connection.
    pub(super) async fn log_in(self: &Arc<Self>, link: &mut Link) -> Result<(), String> {
        let Some(login) = self.login() else { return Ok(()) };
        let reply = link.call(&login.command()).await.map_err(|error: LinkError| error.to_string())?;
        match login_problem(&reply) {
            None => Ok(()),
            Some(why) => {
                self.refresh();
                Err(why)
            }
        }
    }
}
