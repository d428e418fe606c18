/* One request of work, and its end. */
#include "gateway/engine/study_runner.h"

#include <assert.h>

void lh_study_runner_init(lh_study_runner *runner, uv_loop_t *loop,
                          void (*on_studied)(void *context, lh_plan_study *study), void *context) {
    *runner = (lh_study_runner){.loop = loop, .on_studied = on_studied, .context = context};
}

static void on_work(uv_work_t *work) {
    const lh_study_runner *runner = work->data;
    lh_plan_study_run(runner->study);
}

/* Where it was cancelled it has not been run, which is only while closing. */
static void on_worked(uv_work_t *work, int status) {
    lh_study_runner *runner = work->data;
    lh_plan_study *study = runner->study;
    runner->study = NULL;
    if (!runner->on_closed) {
        assert(status == 0);
        runner->on_studied(runner->context, study);
        return;
    }
    (void)status;
    lh_plan_study_destroy(study);
    runner->on_closed(runner->closed_context);
}

void lh_study_runner_run(lh_study_runner *runner, lh_plan_study *study) {
    assert(!runner->study && !runner->on_closed);
    runner->study = study;
    runner->work.data = runner;
    int code = uv_queue_work(runner->loop, &runner->work, on_work, on_worked);
    assert(code == 0); /* it fails for want of a function alone */
    (void)code;
}

void lh_study_runner_close(lh_study_runner *runner, void (*on_closed)(void *), void *context) {
    assert(!runner->on_closed);
    runner->on_closed = on_closed;
    runner->closed_context = context;
    if (runner->study)
        uv_cancel((uv_req_t *)&runner->work); /* where it has begun it ends by itself */
    else
        on_closed(context);
}
