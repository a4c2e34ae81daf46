#define LEVEL level_baseline
#include "level.h"
