/* Linked into everything that is built with ThreadSanitizer. libuv closes descriptors with a raw
 * system call, which the sanitizer cannot see; when another thread then gets the same number, it
 * takes the two for one descriptor and reports a race. So the raw close becomes one that it sees.
 */
#include <dlfcn.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

long syscall(long number, ...) {
    static long (*next)(long, ...);
    long argument[6];
    va_list arguments;
    va_start(arguments, number);
    for (int i = 0; i < 6; i++)
        argument[i] = va_arg(arguments, long);
    va_end(arguments);
    if (number == SYS_close)
        return close((int)argument[0]);
    if (!__atomic_load_n(&next, __ATOMIC_ACQUIRE)) {
        long (*found)(long, ...) = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
        __atomic_store_n(&next, found, __ATOMIC_RELEASE);
    }
    return next(number, argument[0], argument[1], argument[2], argument[3], argument[4],
                argument[5]);
}
