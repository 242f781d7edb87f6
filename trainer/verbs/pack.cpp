// trainer pack --config FILE --out FOLDER: writes a data set as shards for `data: {name: packed}`.
#include "core/base/output.h"
#include "core/base/words.h"
#include "core/config/config.h"
#include "core/config/values.h"
#include "data/images/image_file.h"
#include "data/packed/shard.h"
#include "data/sets/damaged.h"
#include "plan/toggle.h"
#include "trainer/verbs/verbs.h"

namespace bellows {

static const Names kEncodings = {"keep", "raw", "jpeg"};

namespace {
struct PackLine {
  std::string config, out, encoding = kEncodings[0];
  Names overrides;
  PackOptions options;
  int64_t shard_mb = 256;
};
}  // namespace

static void declare(CommandLine& line, PackLine& given) {
  line.add_config(given.config, given.overrides, "YAML file that names the data set");
  line.add_option("--out,-o", given.out, "new folder for the shards").required();
  line.add_option("--encoding", given.encoding,
                  "keep: copy image files unchanged, store other data as pixels (default); raw: "
                  "store pixels; jpeg: encode every image as JPEG. Unless --side or "
                  "data.on_damaged=skip is given, keep decodes no file, so damage goes unnoticed")
      .one_of(kEncodings)
      .value_name("keep|raw|jpeg");
  line.add_option("--side", given.options.side,
                  "shrink larger images until their shorter side has this many pixels (default: "
                  "keep the size); with keep, they are encoded again: PNG, BMP and PNM as PNG, "
                  "others as JPEG with some loss")
      .range(1, 65535);
  line.add_option("--quality", given.options.quality, "quality of encoded JPEGs, 1 to 100")
      .range(1, 100)
      .shows_default();
  line.add_option("--shard-mb", given.shard_mb, "approximate size of a shard, in MiB")
      .range(1, 1 << 20)
      .shows_default();
}

static std::string describe_source(DatasetChoice data, const PackOptions& o) {
  Listing options;
  data.visit_options(options);
  std::string source = cat("name: ", data.name());
  for (const Listing::Line& line : options.lines) source += cat("\n", line.key, ": ", line.text);
  return cat(source, "\nencoding: ", kEncodings[static_cast<int>(o.encoding)], "\nside: ", o.side,
             "\nquality: ", o.quality);
}

static void pack_split(const Plan& plan, const PackLine& given, Split split) {
  most_pixels() = plan.data.loader.batch.max_pixels;
  const auto dataset =
      without_damaged(plan.data.dataset.make({split}), plan.data.loader.batch.on_damaged);
  for (const std::string& note : dataset->notes()) say(note);
  const PackedSplit made = pack(*dataset, split, describe_source(plan.data.dataset, given.options),
                                given.out, given.options);
  say(cat(split == Split::train ? "train: " : "test: ", text_of(made)));
}

static int run_pack(CommandLine& line, const Arguments& args) {
  PackLine given;
  declare(line, given);
  if (!line.read(args)) return 0;
  CHECK(given.encoding == "jpeg" || given.options.side > 0 || !line.given("--quality"),
        "pack: no image is encoded, so --quality has no effect; add --encoding jpeg or --side, or "
        "leave it out");
  const std::vector<Values> sources = read_sources(given.config, given.overrides);
  // Training has a default data set. Writing one to disk requires that it is named.
  const bool named = std::ranges::any_of(
      sources.back(), [](const auto& option) { return option.first.starts_with("data"); });
  CHECK(!given.config.empty() || named,
        "pack: no data set is named; write  trainer pack --config FILE --out ", quoted(given.out));
  const Plan plan = make_config(sources).plan;
  given.options.encoding =
      static_cast<Encoding>(std::ranges::find(kEncodings, given.encoding) - kEncodings.begin());
  given.options.shard_bytes = given.shard_mb << 20;
  const Kind there = kind_of(given.out, Exit::storage);
  CHECK(there == Kind::nothing ||
            (there == Kind::folder && paths_in(given.out, Exit::storage).empty()),
        given.out,
        ": exists and is not an empty folder; remove it, or name another one with --out");
  if (const std::string few = apply(plan.threads); !few.empty()) say(few);
  for (const Split split : {Split::train, Split::test}) pack_split(plan, given, split);
  say("to use it:  " + quoted(cat("data={name: packed, folder: ", yaml(given.out), "}")));
  return 0;
}

static const AddVerb pack_verb({"pack",
                                "writes a data set as shards, which are faster to open and read",
                                "trainer pack --config configs/resnet50_imagefolder.yaml "
                                "data.root=photos --side 256 --out datasets/packed",
                                run_pack, "train"});

}  // namespace bellows
