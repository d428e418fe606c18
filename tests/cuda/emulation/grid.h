/* A launch (cuda.h), as streams have it in their queues (runtime.h). */
#pragma once

#include "tests/cuda/emulation/cuda.h"

#include <memory>
#include <vector>

namespace emulation {

class block;

class grid {
  public:
    grid(dim3 blocks, dim3 threads, std::function<void()> kernel);
    ~grid();

    /* A block of chance goes as far as it need not wait for the grids before. Nothing where none is
     * left, or there is no room for one. */
    void begin_block();
    /* The grids before have run. */
    void run();

  private:
    void list_blocks();
    std::unique_ptr<block> begin(bool grids_have_run);

    const dim3 blocks_, threads_;
    const std::function<void()> kernel_;
    std::vector<dim3> left_; /* blocks that have not begun */
    bool is_listed_ = false; /* left_ has been filled */
    std::vector<std::unique_ptr<block>> begun_;
};

} // namespace emulation
