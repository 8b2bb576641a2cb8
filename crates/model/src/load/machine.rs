//! Does the machine have the memory that a model takes?

use std::fs;
use std::path::Path;

use crate::error::{ByteSize, Error, Result};

/// Bytes of memory that this process could still take without pushing others out; `None` where the system does not say
/// (anything but Linux).
pub fn available_memory() -> Option<u64> {
    let machine = from_meminfo(&fs::read_to_string("/proc/meminfo").ok()?)?;
    let group = fs::read_to_string("/proc/self/cgroup")
        .ok()
        .and_then(|text| group_available(&text));
    Some(group.map_or(machine, |group| group.min(machine)))
}

/// Bytes of memory that this process holds; `None` where the system does not say (anything but Linux).
pub fn resident_memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim()
        .strip_suffix("kB")?
        .trim()
        .parse::<u64>()
        .ok()?
        .checked_mul(1024)
}

fn from_meminfo(text: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim()
        .strip_suffix("kB")?
        .trim()
        .parse::<u64>()
        .ok()?
        .checked_mul(1024)
}

/// What the tightest limit of the process's control group (version 2) and of those above it leaves.
fn group_available(self_cgroup: &str) -> Option<u64> {
    let path = self_cgroup
        .lines()
        .find_map(|line| line.strip_prefix("0::"))?;
    let root = Path::new("/sys/fs/cgroup");
    let own = root.join(path.trim_start_matches('/'));
    own.ancestors()
        .take_while(|group| group.starts_with(root))
        .filter_map(left_in)
        .min()
}

fn left_in(group: &Path) -> Option<u64> {
    let limit: u64 = fs::read_to_string(group.join("memory.max"))
        .ok()?
        .trim()
        .parse()
        .ok()?;
    let stat = fs::read_to_string(group.join("memory.stat")).ok()?;
    // Page cache counts as used, but gives way.
    let anonymous: u64 = stat
        .lines()
        .find_map(|line| line.strip_prefix("anon "))?
        .trim()
        .parse()
        .ok()?;
    Some(limit.saturating_sub(anonymous))
}

/// The weights will fit where they must stay in memory.
///
/// Errors: [`Error::OutOfMemory`].
pub(crate) fn check_memory(needed: u64) -> Result<()> {
    match available_memory() {
        Some(available) if available < needed => Err(Error::OutOfMemory {
            purpose: "for the weights".to_owned(),
            needed,
            available,
            advice: "close other programs, use a machine with more memory, or let the packed copy be kept in a cache \
                     folder, from where weights are mapped instead"
                .to_owned(),
        }),
        _ => Ok(()),
    }
}

/// A warning where mapped weights will not all stay in memory.
pub(crate) fn mapped_warning(needed: u64) -> Option<String> {
    let available = available_memory().filter(|available| *available < needed)?;
    Some(format!(
        "the weights take {} and {} of memory are available: they will be read from disk again and again, which is slow; \
         close other programs or use a machine with more memory",
        ByteSize(needed),
        ByteSize(available)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_is_read() {
        let text = "MemTotal:       65536 kB\nMemFree:  1 kB\nMemAvailable:   24000000 kB\n";
        assert_eq!(from_meminfo(text), Some(24_000_000 * 1024));
        for bad in [
            "",
            "MemAvailable: x kB",
            "MemAvailable: 12",
            "MemAvailable: 99999999999999999999 kB",
        ] {
            assert_eq!(from_meminfo(bad), None, "{bad}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_machine_has_some_memory() {
        assert!(available_memory().unwrap() > 1 << 20);
    }
}
