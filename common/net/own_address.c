/* A UDP socket that is connected has chosen its own end. */
#include "common/net/own_address.h"

#include <arpa/inet.h>
#include <unistd.h>

bool lh_own_address(char text[LH_ADDRESS_TEXT_BYTES]) {
    /* RFC 5737: an address for documents, which the default route leads to */
    struct sockaddr_in world = {.sin_family = AF_INET, .sin_port = htons(9)}, own;
    socklen_t length = sizeof own;
    int descriptor = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0)
        return false;
    bool is_found = inet_pton(AF_INET, "192.0.2.1", &world.sin_addr) == 1 &&
                    connect(descriptor, (struct sockaddr *)&world, sizeof world) == 0 &&
                    getsockname(descriptor, (struct sockaddr *)&own, &length) == 0 &&
                    inet_ntop(AF_INET, &own.sin_addr, text, LH_ADDRESS_TEXT_BYTES);
    close(descriptor);
    return is_found;
}
