// All keys, filters and deadlines of one instant, taken in short steps. The keyspace goes on changing between
// the steps.
//
//     hashes of a database's keys     0 ......... position ............ end
//                                      taken      | still in the table
//
// Keys are taken in the order of their hashes, which no change of the table changes. If a key
// changes before the cut has reached it, the cut first stores the old entry, and later skips the key. A
// flushed table lives on here until it is taken (docs/decisions/0011). After a swap of databases, the cut
// still has the databases of the instant.
//
// Memory beside the entries: the keys that changed while the cut was under way. So take a cut to its end at
// once, and not at the pace of a disk.
#pragma once

#include <sepal/keyspace/keyspace.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace sepal::keyspace {

// Guarded by the gate: members are exclusive, but for keep(). Keyspace::begin_cut() makes it.
class Cut {
 public:
  // Called with the gate closed, unless the last step has been taken. May free a flushed database.
  ~Cut();
  Cut(const Cut&) = delete;
  Cut& operator=(const Cut&) = delete;

  // The number of keys at the instant.
  [[nodiscard]] std::uint64_t size() const { return size_; }
  // Appends about `entry_count` more entries. True when these were the last.
  bool step(std::size_t entry_count, std::vector<CutEntry>& to);

 private:
  friend class Keyspace;
  using Tables = std::array<std::shared_ptr<const Database>, database_count>;

  // `running` points to this cut as long as it is under way.
  Cut(Tables tables, std::uint64_t size, Cut*& running);
  // Keeps what the key names in this database. Called before that changes, with the lock of the key
  // (Keyspace), or with the gate closed.
  void keep(const Database& database, std::string_view key);
  // Whether the key's turn is still to come.
  [[nodiscard]] bool to_come(std::uint32_t database, std::string_view key) const;
  void end();

  Tables tables_;  // as they were at the instant, or what has become of them since
  std::uint64_t size_;
  Cut*& running_;
  std::uint32_t database_ = 0;
  std::uint64_t position_ = 0;  // the first hash to come in that database
  Mutex mutex_;                 // workers keep keys of different parts at a time; no lock is taken inside it
  std::array<std::set<std::string, std::less<>>, database_count> changed_;  // the keys to leave out
  std::vector<CutEntry> kept_;
};

}  // namespace sepal::keyspace
