/* Everything that is compiled for one type of numbers and one level of the processor: see hatch_build.py. */
#include "vectors.h"
#include "tiles.h"
#include "descent.c"
#include "prepare.c"
#include "similarities.h"
#include "density.c"
#include "hidden.c"
#include "evidence.c"
