//! The filter for the calls that the process makes to the kernel: what evaluation needs, and nothing else.

use std::{env::consts::ARCH, process};

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter_all_threads,
};

/// Installs the filter for all threads, and with it that no program that is started could gain rights.
pub(super) fn install() -> Result<(), seccompiler::Error> {
    let filter = SeccompFilter::new(
        calls()?.into_iter().collect(),
        // Refused, not ended: a library that asks for something harmless shall take the answer and go on.
        SeccompAction::Errno(errno(libc::EPERM)),
        SeccompAction::Allow,
        ARCH.try_into()?,
    )?;
    apply_filter_all_threads(&BpfProgram::try_from(filter)?)
}

/// The calls that may be made; where there are rules, with such arguments only.
fn calls() -> Result<Vec<(i64, Vec<SeccompRule>)>, BackendError> {
    let anonymous = flag_bits(libc::MAP_ANONYMOUS);
    let executable = flag_bits(libc::PROT_EXEC);
    let standard_error = equals(0, flag_bits(libc::STDERR_FILENO))?;
    Ok(vec![
        // Its three streams, and no descriptor that it may have inherited.
        (libc::SYS_read, vec![SeccompRule::new(vec![equals(0, flag_bits(libc::STDIN_FILENO))?])?]),
        (
            libc::SYS_write,
            vec![
                SeccompRule::new(vec![equals(0, flag_bits(libc::STDOUT_FILENO))?])?,
                SeccompRule::new(vec![standard_error.clone()])?,
            ],
        ),
        // What the C library says when it gives up.
        (libc::SYS_writev, vec![SeccompRule::new(vec![standard_error])?]),
        // Memory that is no file's and holds no code.
        (libc::SYS_mmap, vec![SeccompRule::new(vec![masked(2, executable, 0)?, masked(3, anonymous, anonymous)?])?]),
        (libc::SYS_mprotect, vec![SeccompRule::new(vec![masked(2, executable, 0)?])?]),
        (libc::SYS_munmap, vec![]),
        (libc::SYS_mremap, vec![]),
        (libc::SYS_brk, vec![]),
        (libc::SYS_madvise, vec![]),
        // Its two threads wait for one another.
        (libc::SYS_futex, vec![]),
        (libc::SYS_sched_yield, vec![]),
        (libc::SYS_restart_syscall, vec![]),
        // The time, where the kernel doesn't tell it without a call, and seeds for hash tables.
        (libc::SYS_clock_gettime, vec![]),
        (libc::SYS_getrandom, vec![]),
        // Its own processor limit, which comes with the script.
        (libc::SYS_prlimit64, vec![SeccompRule::new(vec![equals(0, 0)?, equals(1, u64::from(libc::RLIMIT_CPU))?])?]),
        // An end of its own making: an overflow of the stack and a lack of memory are told by a signal to itself.
        (libc::SYS_exit, vec![]),
        (libc::SYS_exit_group, vec![]),
        (libc::SYS_rt_sigreturn, vec![]),
        (libc::SYS_rt_sigaction, vec![]),
        (libc::SYS_rt_sigprocmask, vec![]),
        (libc::SYS_sigaltstack, vec![]),
        (libc::SYS_getpid, vec![]),
        (libc::SYS_gettid, vec![]),
        (
            libc::SYS_tgkill,
            vec![SeccompRule::new(vec![equals(0, u64::from(process::id()))?, equals(2, flag_bits(libc::SIGABRT))?])?],
        ),
    ])
}

/// The argument is this. Only its lower half is looked at: all those that are compared are 32 bits wide in the kernel.
fn equals(argument: u8, expected: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, expected)
}

/// These bits of the argument are these.
fn masked(argument: u8, mask: u64, expected: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(mask), expected)
}

fn flag_bits(constant: i32) -> u64 {
    u64::try_from(constant).expect("the constants that are compared are not negative")
}

fn errno(constant: i32) -> u32 {
    constant.unsigned_abs()
}
