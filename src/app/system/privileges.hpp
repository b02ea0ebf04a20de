// The user that sepald runs as, when root starts it with the setting `user`.
//
//     root          opens the log file, and makes the data directory if it is not there
//     the user      begin(): reads and writes all files. Root is only the saved user then
//     root          AsRoot: opens the ports, some of which only root may open
//     the user      drop(): for good. No client has been served yet
//
// Linux keeps these per thread; glibc's calls change all threads of the process.
#pragma once

#include <sepal/base/result.hpp>

#include <string>
#include <sys/types.h>

namespace sepal::app {

// Whether the machine knows this user; an empty name is none, and always right. Errors: not_found, io.
Result<void> require_user(const std::string& name);

// Confined to the main thread.
class Privileges {
 public:
  struct Files {
    std::string log;             // empty: none
    std::string data_directory;  // made if it is not there
  };

  // Becomes the user, but keeps the way back. An empty name, or that of the user who runs the process,
  // changes nothing. Called before other threads start. Errors: not_found (there is no such user), read_only
  // (another user than root cannot become somebody else; the user cannot write to the data directory), io.
  Result<void> begin(const std::string& user, const Files& files);

  // Gives up the way back, and makes sure that there is none. Does nothing unless begin() changed the user.
  // Errors: io.
  Result<void> drop();

  // Gives a file that root has made to the user. Does nothing unless begin() changed the user. Errors: io.
  Result<void> give(const std::string& path) const;

  // Whether this is root without a user to become.
  [[nodiscard]] bool is_root_unasked() const { return root_unasked_; }

  // Root again, while this object lives.
  class AsRoot {
   public:
    explicit AsRoot(const Privileges& privileges);
    ~AsRoot();
    AsRoot(const AsRoot&) = delete;
    AsRoot& operator=(const AsRoot&) = delete;

   private:
    const Privileges& privileges_;
  };

 private:
  Result<void> make_directory(const std::string& path) const;
  Result<void> become() const;

  bool changes_ = false;  // root is to become another user
  bool root_unasked_ = false;
  std::string name_;
  uid_t user_ = 0;
  gid_t group_ = 0;
};

}  // namespace sepal::app
