// `sepal backup` and `sepal restore`: a copy of the data of a server, and the way back.
//
//     running server   BGSAVE -> wait -> position of the journal -> copy -> verify -> rename
//     stopped server             lock -> copy -> verify -> rename
//
// The program reads the server's data directory itself; through the connection it only asks for the save. The
// backup grows as DEST.partial, and gets its name when it is whole, verified and on disk
// (docs/decisions/0033).
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/storage/examine/backup.hpp>
#include <sepal/tls/context.hpp>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "tools/redis/redis_address.hpp"
#include "tools/shell/progress.hpp"

namespace sepal::tools {

struct BackupRequest {
  std::optional<RedisAddress> server;  // empty: the server is stopped
  std::string password;                // empty: none
  std::filesystem::path directory;     // the data directory; empty: the server says where it is
  tls::Context::ClientOptions tls{};   // for an address with TLS
  std::filesystem::path into;
  // Chooses the backup's name in the folder `into`; empty: `into` is the name. It may make `into`, so it is
  // called when it is known that `into` lies outside of the data directory.
  std::function<Result<std::filesystem::path>()> choose{};
  bool may_link = true;
};

struct BackupReport {
  storage::CopyReport copy;
  std::filesystem::path directory;  // that was copied
  std::filesystem::path into;
};

// Blocks. Memory: fixed buffers, and the largest filter that came whole since the save. Errors: with a
// sentence. After an error there is nothing under the name `into`.
Result<BackupReport> make_backup(const BackupRequest& request, Progress& progress);

struct RestoreRequest {
  std::filesystem::path backup;
  std::filesystem::path directory;
  bool force = false;  // data that is there is put aside
};

struct RestoreReport {
  storage::CopyReport copy;
  std::filesystem::path aside;  // where the data is that was there; empty: there was none
};

// Blocks. Memory: as make_backup. Errors: with a sentence. After an error the data that was there is there.
Result<RestoreReport> restore_backup(const RestoreRequest& request, Progress& progress);

}  // namespace sepal::tools
