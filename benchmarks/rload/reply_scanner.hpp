// Scans replies as far as a load generator needs it: where each reply ends, and whether it is an error.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace rload {

// Counts complete replies in a stream of bytes, cut anywhere.
class ReplyScanner {
 public:
  // Returns how many top-level replies these bytes complete.
  std::uint64_t scan(const char* bytes, std::size_t size) {
    std::uint64_t done = 0;
    for (std::size_t at = 0; at < size;) {
      if (bulk_left_ > 0) {
        const std::size_t step = std::min<std::uint64_t>(bulk_left_, size - at);
        bulk_left_ -= step;
        at += step;
        if (bulk_left_ == 0) done += finish_value();
        continue;
      }
      const char* end = static_cast<const char*>(std::memchr(bytes + at, '\n', size - at));
      if (end == nullptr) {
        line_.append(bytes + at, size - at);
        break;
      }
      const std::size_t length = static_cast<std::size_t>(end - (bytes + at)) + 1;
      if (line_.empty()) {
        done += scan_line({bytes + at, length});
      } else {
        line_.append(bytes + at, length);
        done += scan_line(line_);
        line_.clear();
      }
      at += length;
    }
    return done;
  }

  [[nodiscard]] std::uint64_t errors() const { return errors_; }

 private:
  std::uint64_t scan_line(std::string_view line) {
    const char type = line[0];
    if (type == '-' && errors_++ < 3) {
      std::fprintf(stderr, "error reply: %.*s", static_cast<int>(line.size()), line.data());
    }
    if (std::strchr("$=*~>%", type) == nullptr) return finish_value();
    const long long length = std::strtoll(line.data() + 1, nullptr, 10);
    const bool bulk = type == '$' || type == '=';
    if (length < 0 || (length == 0 && !bulk)) return finish_value();
    if (bulk) {
      bulk_left_ = static_cast<std::uint64_t>(length) + 2;
    } else {
      elements_left_.push_back(type == '%' ? 2 * length : length);
    }
    return 0;
  }

  // Notes the end of a value. Returns 1 if it ends a top-level reply.
  std::uint64_t finish_value() {
    while (!elements_left_.empty()) {
      if (--elements_left_.back() > 0) return 0;
      elements_left_.pop_back();
    }
    return 1;
  }

  std::uint64_t bulk_left_ = 0;
  std::vector<long long> elements_left_;  // for each open array, outermost first
  std::string line_;
  std::uint64_t errors_ = 0;
};

}  // namespace rload
