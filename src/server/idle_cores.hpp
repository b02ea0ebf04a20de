// How many of the cores that this process may use are idle.
#pragma once

#include <sepal/base/clock.hpp>
#include <sepal/base/descriptor.hpp>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace sepal::server {

// The time that these cores were idle since the start of the machine, in ticks of /proc/stat, whose text this
// is. Nothing: the text says it of none of them.
[[nodiscard]] std::optional<std::uint64_t> idle_ticks(std::string_view proc_stat,
                                                      const std::vector<bool>& cores);

// Has one descriptor open. Confined to one thread.
class IdleCores {
 public:
  IdleCores();

  // The cores that nothing used since the last call, 0.7 for instance. 0 for the first call, and for the
  // first one after forget(). If the system does not tell: all cores.
  [[nodiscard]] double since_last_look(SteadyTime now);
  void forget() { last_.reset(); }

 private:
  struct Reading {
    SteadyTime at;
    std::uint64_t ticks = 0;
  };

  Descriptor file_;          // /proc/stat; not open: there is none
  std::vector<bool> cores_;  // by their number: those that this process may use
  double ticks_per_second_;
  std::optional<Reading> last_;
};

}  // namespace sepal::server
