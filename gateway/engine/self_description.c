/* Some facts anew. */
#include "gateway/engine/self_description.h"

void lh_self_description_renew(lh_self_description *self, const lh_tls_options *tls) {
    lh_host_facts_read_clock(&self->host);
    if (self->state_dir && self->state_dir[0])
        lh_host_facts_read_disk(&self->host, self->state_dir);
    if (tls && tls->credentials)
        lh_tls_credentials_note(tls->credentials, &self->host);
}
