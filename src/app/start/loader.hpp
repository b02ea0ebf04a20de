// Fills the keyspace at the start, while clients are connected already. Meanwhile the dispatcher refuses
// commands that need the data, and INFO tells how far the load is. So the loader closes the gate often, but
// shortly each time.
#pragma once

#include <sepal/base/clock.hpp>
#include <sepal/base/gate.hpp>
#include <sepal/base/result.hpp>
#include <sepal/command/run/services.hpp>
#include <sepal/keyspace/keyspace.hpp>
#include <sepal/storage/generation/data_directory.hpp>
#include <sepal/storage/replay/replay.hpp>

#include <functional>
#include <span>

#include "app/system/service_manager.hpp"

namespace sepal::app {

// Called from any thread that is not inside the gate.
class Loader {
 public:
  // `status` is guarded by the gate. Any thread of the load may call `give_up`.
  Loader(Gate& gate, keyspace::Keyspace& keyspace, command::LoadStatus& status, ServiceManager& manager,
         std::function<bool()> give_up);

  // Errors: those of DataDirectory::load. Blocks.
  Result<storage::GenerationReport> load(storage::DataDirectory& data);
  // Called once, after load(): applies what was recorded after the generation. Errors: those of
  // replay_journal. Blocks.
  Result<storage::ReplayReport> replay(storage::Disk& disk, const storage::Path& directory,
                                       const storage::GenerationReport& loaded);

 private:
  Result<void> take(std::span<storage::LoadedValue> filters);
  // Called with the gate closed.
  void prefetch(std::span<const storage::LoadedValue> filters) const;
  // False: give up.
  bool note(const storage::Progress& progress);
  // Called with the gate closed. Whether it is time for a line in the log.
  bool log_is_due();

  Gate& gate_;
  keyspace::Keyspace& keyspace_;
  command::LoadStatus& status_;
  ServiceManager& manager_;
  std::function<bool()> give_up_;
  SteadyTime start_;
  SteadyTime logged_;                  // guarded by the gate
  storage::ValuePositions positions_;  // guarded by the gate
};

}  // namespace sepal::app
