// Where a file of a data directory comes from. Positions in the journal are plain numbers. So the generation
// of another directory, or of a copy of this one that went on by itself, can fit a journal, and the data
// would be wrong. Each MANIFEST and each segment therefore says to which directory it belongs, and which run
// of sepald wrote it (docs/decisions/0039).
#pragma once

#include <cstdint>

namespace sepal::storage {

struct Lineage {
  std::uint64_t identity = 0;    // drawn once for a data directory; 0: an earlier version wrote the file
  std::uint32_t run = 0;         // drawn at each start with the directory; 0 likewise
  std::uint32_t run_before = 0;  // of a segment: the run that wrote what stands before it; 0: none did

  friend bool operator==(const Lineage&, const Lineage&) = default;
};

}  // namespace sepal::storage
