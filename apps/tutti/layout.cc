// SPDX-License-Identifier: Apache-2.0
// tutti layout FILE: prints the stripes of a file and the bytes on each target.
#include "layout/layout.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <map>

#include "base/json.h"
#include "base/table.h"
#include "base/units.h"
#include "command.h"
#include "layout/discovery.h"

namespace tutti::cli {
namespace {

struct LayoutArguments {
  std::string file;
  Bytes stripe_size{1 << 20};
  std::uint32_t targets = 4;
  std::uint32_t rows = 16;
  bool json = false;
};

// The layout from the file system, else from the arguments.
Result<Layout> find_layout(const LayoutArguments& arguments) {
  auto found = discover_file(arguments.file, arguments.targets);
  if (!found) return Failure(found.error());
  if (*found) return **found;
  auto layout = Layout::round_robin(arguments.stripe_size, arguments.targets);
  if (auto fine = layout.check(); !fine) return Failure(fine.error());
  return layout;
}

// The pattern repeats, so one period is enough for files of any size.
std::map<TargetId, Bytes> bytes_per_target(const Layout& layout, std::uint64_t size) {
  const auto objects = layout.object_size.count() > 0 ? layout.object_size * layout.targets.size() : layout.stripe_size;
  const auto period = objects * layout.stripe_count;
  std::map<TargetId, Bytes> result;
  for (const auto target : layout.targets) result[target];
  if (size >= period.count()) {
    for (const auto& piece : split(layout, 0, period)) {
      result[piece.target] += piece.length * (size / period.count());
    }
  }
  for (const auto& piece : split(layout, 0, Bytes(size % period.count()))) result[piece.target] += piece.length;
  return result;
}

void print_layout(const Layout& layout, std::uint64_t size, std::uint32_t rows) {
  fmt::print("source        {}\nstripe size   {}\nstripe count  {}\n", layout.source, format(layout.stripe_size),
             layout.stripe_count);
  if (layout.object_size.count() > 0) fmt::print("object size   {}\n", format(layout.object_size));
  fmt::print("file size     {}\n\n", format(Bytes(size)));
  Table totals({"target", "bytes"});
  for (const auto& [target, bytes] : bytes_per_target(layout, size)) {
    totals.add({std::to_string(target), std::to_string(bytes.count())});
  }
  fmt::print("{}\n", totals.text());
  Table map({"offset", "length", "target", "object", "object offset"});
  const auto shown = Bytes(std::min(size, layout.stripe_size.count() * rows));
  for (const auto& piece : split(layout, 0, shown)) {
    map.add({std::to_string(piece.offset), std::to_string(piece.length.count()), std::to_string(piece.target),
             std::to_string(piece.object), std::to_string(piece.object_offset)});
  }
  if (!map.empty()) fmt::print("{}", map.text());
  if (shown.count() < size) fmt::print("... ({} of {} shown)\n", format(shown), format(Bytes(size)));
}

void print_json(const Layout& layout, std::uint64_t size) {
  Json document{{"source", layout.source},
                {"stripe_size", layout.stripe_size.count()},
                {"stripe_count", layout.stripe_count},
                {"object_size", layout.object_size.count()},
                {"targets", layout.targets},
                {"size", size},
                {"bytes", Json::object()}};
  for (const auto& [target, bytes] : bytes_per_target(layout, size)) {
    document["bytes"][std::to_string(target)] = bytes.count();
  }
  fmt::print("{}\n", document.dump(2));
}

int run(const LayoutArguments& arguments) {
  auto layout = find_layout(arguments);
  if (!layout) return report(layout.error());
  struct stat attributes {};
  if (::stat(arguments.file.c_str(), &attributes) != 0) {
    return report({ErrorCode::kIo, arguments.file + ": " + std::strerror(errno), errno});
  }
  const auto size = static_cast<std::uint64_t>(attributes.st_size);
  if (arguments.json) {
    print_json(*layout, size);
  } else {
    print_layout(*layout, size, arguments.rows);
  }
  return kDone;
}

}  // namespace

Command layout_command() {
  return {
      "layout", "Print the stripes of a file and the bytes on each target", [](CommandLine& line) {
        auto arguments = std::make_shared<LayoutArguments>();
        line.option("file", arguments->file, "A file on Lustre, CephFS, BeeGFS, Gluster or any directory").required();
        line.option("--stripe-size", arguments->stripe_size, "Stripe size, if the file system does not report it");
        line.option("--targets", arguments->targets, "Number of targets, if the file system does not report it")
            .between(1, 65536);
        line.option("--rows", arguments->rows, "Number of stripes to print");
        line.json(arguments->json);
        line.action([arguments] { return run(*arguments); });
      }};
}

}  // namespace tutti::cli
