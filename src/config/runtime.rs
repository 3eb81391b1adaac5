//! `[runtime]`: how many shards there are, and which core each thread is pinned to.

use toml::Spanned;

use super::error::{ConfigError, Source};
use super::machine::Machine;
use super::raw::{RawRuntime, Value};
use super::section::Section;

/// Threads and cores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runtime {
    /// One entry per shard: the core it is pinned to. At least one entry.
    pub cores: Vec<usize>,
    /// The core the dispatcher is pinned to; `None`: it runs wherever the kernel puts it.
    pub dispatcher_core: Option<usize>,
}

/// Most shards: more than the cores of any machine this is for, and within the records' 16-bit indices.
const SHARDS_MAX: u32 = 1_024;

impl Runtime {
    pub(super) fn read(source: &Source, raw: &RawRuntime, machine: &Machine) -> Result<Self, ConfigError> {
        let section = Section { source, name: "runtime" };
        let dispatcher_core = match &raw.dispatcher_core {
            Some(value) => Some(core(&section, "dispatcher_core", value, machine)?),
            None => None,
        };
        let shards = section.count("shards", raw.shards.as_ref(), 1..=SHARDS_MAX)?;
        let cores = match &raw.cores {
            Some(value) => listed_cores(&section, value, machine)?,
            None => free_cores(machine, dispatcher_core),
        };
        let shards = match (shards.and_then(|shards| usize::try_from(shards).ok()), &raw.shards) {
            (Some(shards), Some(value)) if raw.cores.is_some() && shards != cores.len() => {
                let problem = format!("does not fit runtime.cores, which lists {}: leave one of them out", cores.len());
                return Err(section.error("shards", value, &problem));
            }
            (Some(shards), _) => shards,
            (None, _) => cores.len(),
        };
        Ok(Self { cores: cores.iter().copied().cycle().take(shards).collect(), dispatcher_core })
    }
}

/// The cores for shards where none are listed: all but the dispatcher's, or that one if there is no other.
fn free_cores(machine: &Machine, dispatcher_core: Option<usize>) -> Vec<usize> {
    let free: Vec<usize> = machine.cores.iter().copied().filter(|&core| Some(core) != dispatcher_core).collect();
    if free.is_empty() { machine.cores.clone() } else { free }
}

fn listed_cores(section: &Section<'_>, value: &Spanned<Value>, machine: &Machine) -> Result<Vec<usize>, ConfigError> {
    let items = match value.get_ref() {
        Value::List(items) if !items.is_empty() => items,
        Value::List(_) => {
            return Err(section.error("cores", value, "is empty: write a list of core numbers, such as [0, 1]"));
        }
        Value::Text(_) | Value::Integer(_) | Value::Boolean(_) | Value::Table(_) | Value::Other => {
            return Err(section.error("cores", value, "is not a list of core numbers, such as [0, 1]"));
        }
    };
    let mut cores = Vec::new();
    for item in items {
        let core = core(section, "cores", item, machine)?;
        if cores.contains(&core) {
            return Err(section.error("cores", item, "is listed twice; each shard has a core of its own"));
        }
        cores.push(core);
    }
    Ok(cores)
}

fn core(section: &Section<'_>, key: &str, value: &Spanned<Value>, machine: &Machine) -> Result<usize, ConfigError> {
    let Value::Integer(number) = value.get_ref() else {
        return Err(section.error(key, value, "is not the number of a core"));
    };
    match usize::try_from(*number) {
        Ok(core) if machine.cores.contains(&core) => Ok(core),
        Ok(_) | Err(_) => {
            let problem = format!("is not a core this process may use; those are {}", ranges(&machine.cores));
            Err(section.error(key, value, &problem))
        }
    }
}

/// Ascending numbers as the kernel writes a cpuset: `0-3,8`.
fn ranges(cores: &[usize]) -> String {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for &core in cores {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == core => *last = core,
            Some(_) | None => parts.push((core, core)),
        }
    }
    let parts: Vec<String> = parts
        .into_iter()
        .map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") })
        .collect();
    parts.join(",")
}
