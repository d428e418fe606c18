/* Its end. */
#include "gateway/cli/fleet_document.h"

#include <stdlib.h>

void lh_fleet_document_reset(lh_fleet_document *document) {
    for (size_t i = 0; i < document->chain_count; i++) {
        free(document->chains[i].stages);
        free(document->chains[i].links);
    }
    free(document->chains);
    free(document->workers);
    free(document->matrix);
    *document = (lh_fleet_document){0};
}
