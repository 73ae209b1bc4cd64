/* pause: the one process of a pod's sandbox. It holds the namespaces, reaps orphans when the pod shares its process
 * ids, and ends at once on SIGTERM or SIGINT.
 *
 * Why C: this runs once a pod, without a C library, in about a kilobyte of code and a few pages of memory. The same
 * in Rust would need `unsafe` and inline assembly in a project that forbids the former, for nothing gained: there is
 * no input, no allocation and no string here.
 */

#if defined(__x86_64__)
enum { WAIT4 = 61, EXIT = 60, RT_SIGPROCMASK = 14, RT_SIGTIMEDWAIT = 128 };

static long call(long number, long a, long b, long c, long d) {
    register long r10 __asm__("r10") = d;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
                     : "rcx", "r11", "memory");
    return result;
}
/* The kernel enters with the stack aligned for a program, not for a called function. */
#define ENTRY __attribute__((noreturn, used, force_align_arg_pointer))
#elif defined(__aarch64__)
enum { WAIT4 = 260, EXIT = 93, RT_SIGPROCMASK = 135, RT_SIGTIMEDWAIT = 137 };

static long call(long number, long a, long b, long c, long d) {
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
    return x0;
}
#define ENTRY __attribute__((noreturn, used))
#else
#error "pause knows x86_64 and aarch64: add this machine's four system calls"
#endif

enum { SIG_BLOCK_ = 0, SIGINT_ = 2, SIGTERM_ = 15, SIGCHLD_ = 17, WNOHANG_ = 1 };

#define BIT(signal) (1UL << ((signal)-1))

ENTRY void _start(void) {
    /* Blocked signals are kept for sigtimedwait, also for a process 1, which else would not see them. */
    volatile unsigned long set = BIT(SIGINT_) | BIT(SIGTERM_) | BIT(SIGCHLD_);
    call(RT_SIGPROCMASK, SIG_BLOCK_, (long)&set, 0, sizeof set);
    for (;;) {
        long signal = call(RT_SIGTIMEDWAIT, (long)&set, 0, 0, sizeof set);
        if (signal == SIGINT_ || signal == SIGTERM_)
            call(EXIT, 0, 0, 0, 0);
        /* One SIGCHLD may stand for many. */
        while (signal == SIGCHLD_ && call(WAIT4, -1, 0, WNOHANG_, 0) > 0)
            ;
    }
}
