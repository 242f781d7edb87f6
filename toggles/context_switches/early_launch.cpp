#include "plan/toggle.h"

static const bellows::AddToggle early_launch({
    .aliases = {"programmatic_dependent_launch", "PDL", "programmatic_stream_serialization"},
    .idea = "The next kernel of a stream is launched while its predecessor runs. Its blocks are "
            "distributed and wait in their first statement, so the gap between two kernels no "
            "longer contains the launch.",
    .claim = "about a microsecond less between two kernels, also inside a CUDA graph; unmeasured "
             "here, and no figure in the seeds",
    .cost =
        "waiting blocks occupy multiprocessors that a long kernel could use. Kernels of vendors "
        "and kernels compiled at run time are launched as usual.",
    .footprint = "cuda.early_launches",
    .same = bellows::Same::bitwise,
    .default_value = "off",
    .fast = "",  // until a GPU has run it
    .needs = {"cuda"},
    .enable = [](bellows::Plan& plan) { plan.kernels.early_launch = true; },
});
