// Fills the keyspace at the start, while clients are connected already. What needs the data is refused to
// them meanwhile, and INFO tells how far the load is: so the gate is closed often, and shortly each time.
#pragma once

#include <sepal/base/clock.hpp>
#include <sepal/base/gate.hpp>
#include <sepal/base/result.hpp>
#include <sepal/command/services.hpp>
#include <sepal/keyspace/keyspace.hpp>
#include <sepal/storage/data_directory.hpp>
#include <sepal/storage/replay.hpp>

#include <cstdint>
#include <functional>
#include <span>

namespace sepal::app {

// Its members are called from any thread that is not inside the gate.
class Loader {
 public:
  // `status` is guarded by the gate. `give_up` is asked from within the load, by any thread of it.
  Loader(Gate& gate, keyspace::Keyspace& keyspace, command::LoadStatus& status,
         std::function<bool()> give_up);

  // Errors: those of DataDirectory::load. Blocks.
  Result<storage::GenerationReport> load(storage::DataDirectory& data);
  // Then, once: what was recorded behind the generation. Errors: those of replay_journal. Blocks.
  Result<storage::ReplayReport> replay(storage::Disk& disk, const storage::Path& directory,
                                       const storage::GenerationReport& loaded);

 private:
  Result<void> take(std::span<storage::LoadedFilter> filters);
  // False: give up.
  bool note(const storage::Progress& progress);
  // With the gate closed. Whether it is time for a line in the log.
  bool log_is_due();

  Gate& gate_;
  keyspace::Keyspace& keyspace_;
  command::LoadStatus& status_;
  std::function<bool()> give_up_;
  SteadyTime start_;
  SteadyTime logged_;                   // guarded by the gate
  storage::FilterPositions positions_;  // guarded by the gate
};

}  // namespace sepal::app
