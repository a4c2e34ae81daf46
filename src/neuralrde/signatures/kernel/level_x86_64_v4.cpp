#define LEVEL level_x86_64_v4
#include "level.h"
