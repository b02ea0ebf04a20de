// Filters that come from another server, or go there: BF.SCANDUMP, BF.LOADCHUNK, and BF.SHAPE, which replicas
// and the AOF have.
#pragma once

#include "module/request.hpp"

namespace sepal::module {

void bf_load_chunk(Request& request);
void bf_scan_dump(Request& request);

// BF.SHAPE key header: creates the filter whose image header this is, without items, or gives the filter the
// layers that the header has in addition to its own.
void bf_shape(Request& request);

}  // namespace sepal::module
