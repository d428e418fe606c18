/* Which hub hf: means. Thread: start-up only. */
#pragma once

/* `given` where it is not "", else $HF_ENDPOINT, else https://huggingface.co; static, or as long as
 * these. */
const char *lh_hub_url_choose(const char *given);
