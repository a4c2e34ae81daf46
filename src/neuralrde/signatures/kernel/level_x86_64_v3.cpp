#define LEVEL level_x86_64_v3
#include "level.h"
