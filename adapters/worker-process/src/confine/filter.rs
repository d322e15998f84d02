//! The filter for system calls: those that a worker needs, and no others.

use std::{env::consts::ARCH, process};

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter_all_threads,
};

/// Installs the filter for all threads, which also sets `no_new_privs`.
pub(super) fn install() -> Result<(), seccompiler::Error> {
    let filter = SeccompFilter::new(
        allowed_calls()?.into_iter().collect(),
        // An error instead of a kill: a library that makes a harmless call can continue.
        SeccompAction::Errno(errno_code(libc::EPERM)),
        SeccompAction::Allow,
        ARCH.try_into()?,
    )?;
    apply_filter_all_threads(&BpfProgram::try_from(filter)?)
}

/// The allowed calls; where there are rules, only with matching arguments.
fn allowed_calls() -> Result<Vec<(i64, Vec<SeccompRule>)>, BackendError> {
    let anonymous = flag_bits(libc::MAP_ANONYMOUS);
    let executable = flag_bits(libc::PROT_EXEC);
    let standard_error = argument_equals(0, flag_bits(libc::STDERR_FILENO))?;
    Ok(vec![
        // Its three streams, and no descriptor that it may have inherited.
        (libc::SYS_read, vec![SeccompRule::new(vec![argument_equals(0, flag_bits(libc::STDIN_FILENO))?])?]),
        (
            libc::SYS_write,
            vec![
                SeccompRule::new(vec![argument_equals(0, flag_bits(libc::STDOUT_FILENO))?])?,
                SeccompRule::new(vec![standard_error.clone()])?,
            ],
        ),
        // The C library's message when it aborts.
        (libc::SYS_writev, vec![SeccompRule::new(vec![standard_error])?]),
        // Memory that is no file's and holds no code.
        (
            libc::SYS_mmap,
            vec![SeccompRule::new(vec![
                argument_bits_equal(2, executable, 0)?,
                argument_bits_equal(3, anonymous, anonymous)?,
            ])?],
        ),
        (libc::SYS_mprotect, vec![SeccompRule::new(vec![argument_bits_equal(2, executable, 0)?])?]),
        (libc::SYS_munmap, vec![]),
        (libc::SYS_mremap, vec![]),
        (libc::SYS_brk, vec![]),
        (libc::SYS_madvise, vec![]),
        // Its two threads wait for one another.
        (libc::SYS_futex, vec![]),
        (libc::SYS_sched_yield, vec![]),
        (libc::SYS_restart_syscall, vec![]),
        // The time, where the vDSO doesn't provide it, and seeds for hash tables.
        (libc::SYS_clock_gettime, vec![]),
        (libc::SYS_getrandom, vec![]),
        // Its own processor limit, which comes with its work.
        (
            libc::SYS_prlimit64,
            vec![SeccompRule::new(vec![argument_equals(0, 0)?, argument_equals(1, u64::from(libc::RLIMIT_CPU))?])?],
        ),
        // Its own exit: a stack overflow and a lack of memory raise a signal to itself.
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
            vec![SeccompRule::new(vec![
                argument_equals(0, u64::from(process::id()))?,
                argument_equals(2, flag_bits(libc::SIGABRT))?,
            ])?],
        ),
    ])
}

/// The argument equals `expected`. Only its lower half is compared: these arguments are 32 bits wide in the kernel.
fn argument_equals(argument: u8, expected: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, expected)
}

/// The masked bits of the argument equal `expected`.
fn argument_bits_equal(argument: u8, mask: u64, expected: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(mask), expected)
}

fn flag_bits(constant: i32) -> u64 {
    u64::try_from(constant).expect("the constants that are compared are not negative")
}

fn errno_code(constant: i32) -> u32 {
    constant.unsigned_abs()
}
