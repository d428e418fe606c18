/* capget, capset: two system calls for which libc has no function. */
#include "common/sandbox/capabilities.h"

#include <errno.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BIT(capability) (UINT64_C(1) << (capability))

/* Keys, models and folders may belong to other users, and are opened again while the program runs.
 */
static const uint64_t needed = BIT(CAP_DAC_OVERRIDE) | BIT(CAP_DAC_READ_SEARCH) |
                               BIT(CAP_NET_BIND_SERVICE) | BIT(CAP_SYS_RESOURCE);

lh_status lh_capabilities_drop(const lh_sandbox_rules *rules, uint64_t *kept, lh_error *error) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct halves[_LINUX_CAPABILITY_U32S_3];
    if (syscall(SYS_capget, &header, halves) != 0)
        return lh_fail(error, LH_ERR_IO, "sandbox: capabilities: %s", strerror(errno));
    *kept = halves[0].effective | (uint64_t)halves[1].effective << 32;
    *kept &= needed | (rules->keeps_network_admin ? BIT(CAP_NET_ADMIN) : 0);
    for (unsigned i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
        uint32_t half = (uint32_t)(*kept >> 32 * i);
        halves[i] = (struct __user_cap_data_struct){.effective = half, .permitted = half};
    }
    if (syscall(SYS_capset, &header, halves) != 0)
        return lh_fail(error, LH_ERR_IO, "sandbox: capabilities: %s", strerror(errno));
    return LH_OK;
}
