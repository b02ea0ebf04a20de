// Cuckoo filters that come from another server, or go there: CF.SCANDUMP and CF.LOADCHUNK, and CF.SHAPE,
// which replicas and the AOF have.
#pragma once

#include "module/request.hpp"

namespace sepal::module::cf {

void cf_load_chunk(Request& request);
void cf_scan_dump(Request& request);

// CF.SHAPE key plan: makes the filter of this plan (cuckoo/native/plan.hpp), without items.
void cf_shape(Request& request);

}  // namespace sepal::module::cf
