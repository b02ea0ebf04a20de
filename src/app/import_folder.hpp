// The folder of BF.IMPORT and BF.EXPORT: filter files by plain names, so that no request reaches anything
// outside of it, and none through a symbolic link.
#pragma once

#include <sepal/command/adoptions.hpp>
#include <sepal/storage/disk.hpp>

#include <string>
#include <utility>

namespace sepal::app {

// Confined to the thread of adoptions.
class ImportFolder final : public command::Transfers {
 public:
  // `folder` is empty where there is none.
  ImportFolder(storage::Disk& disk, storage::Path folder) : disk_(disk), folder_(std::move(folder)) {}

  [[nodiscard]] bool enabled() const override { return !folder_.empty(); }
  Result<keyspace::FilterPtr> read(const std::string& name, const command::Making& making) override;
  Result<void> write(const command::OutgoingFile& file, const command::Making& making) override;

 private:
  storage::Disk& disk_;
  const storage::Path folder_;
};

}  // namespace sepal::app
