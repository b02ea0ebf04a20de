#include "logging.hpp"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <memory>
#include <utility>

namespace sepal::app {
namespace {

// The message as the inside of a JSON string: "%*" of the pattern below.
class JsonText final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& to) override {
    for (const char c : message.payload) append(c, to);
  }
  [[nodiscard]] std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<JsonText>();
  }

 private:
  static void append(char c, spdlog::memory_buf_t& to) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      to.push_back('\\');
      to.push_back(c);
    } else if (byte < 0x20) {
      char escaped[8];
      const int length = std::snprintf(escaped, sizeof escaped, "\\u%04x", byte);
      to.append(escaped, escaped + length);
    } else {
      to.push_back(c);
    }
  }
};

std::unique_ptr<spdlog::formatter> make_formatter(const std::string& format) {
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  if (format == "json") {
    formatter->add_flag<JsonText>('*').set_pattern(
        R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l","message":"%*"})");
  } else {
    formatter->set_pattern("%Y-%m-%d %H:%M:%S.%e %-7l %v");
  }
  return formatter;
}

}  // namespace

Result<void> start_logging(const settings::LogOptions& options) {
  spdlog::sink_ptr sink;
  if (options.file.empty()) {
    sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  } else {
    try {
      sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(options.file);
    } catch (const spdlog::spdlog_ex& problem) {
      return fail(Errc::io, std::string("cannot open the log file: ") + problem.what());
    }
  }
  auto logger = std::make_shared<spdlog::logger>("sepald", std::move(sink));
  logger->set_formatter(make_formatter(options.format));
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
  set_log_level(options.level);
  return {};
}

void set_log_level(const std::string& level) {
  spdlog::set_level(spdlog::level::from_str(level));
}

}  // namespace sepal::app
