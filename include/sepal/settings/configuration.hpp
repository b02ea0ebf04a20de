// The settings as CONFIG shows and changes them.
#pragma once

#include <sepal/command/run/services.hpp>
#include <sepal/settings/settings.hpp>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace sepal::settings {

struct Setting;

// Called inside the gate.
class Configuration final : public command::Configuration {
 public:
  // Makes the options of TLS effective, which were read without an error.
  using Adopt = std::function<void()>;
  struct Observer {
    std::function<void()> changed;  // the settings have changed. With the gate closed
    // A client sets options of TLS, maybe to the values that they have: reads the files. With the gate
    // closed. Errors: with a sentence.
    std::function<Result<Adopt>(const tls::Options&)> read_tls = [](const tls::Options&) {
      return Result<Adopt>([] {});
    };
  };

  // Shows `settings`, and changes their `runtime`, `keyspace` and `tls`.
  Configuration(Settings& settings, Observer observer);

  [[nodiscard]] std::vector<Parameter> parameters() const override;
  [[nodiscard]] std::string get(std::string_view name) const override;
  [[nodiscard]] std::unique_ptr<command::Configuration::Draft> draft() override;

 private:
  class Draft;

  std::map<std::string, const Setting*, std::less<>> rows_;  // by the name of the parameter
  Settings& settings_;
  Observer observer_;
};

}  // namespace sepal::settings
