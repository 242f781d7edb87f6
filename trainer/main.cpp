// The program. All code is in the object library, so tests can call it too.
#include "trainer/verbs/verbs.h"

int main(int argc, char** argv) { return bellows::run_program({argv + 1, argv + argc}); }
