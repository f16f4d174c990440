"""Mask images of every kind, against the arrays they were made of."""

import numpy as np
import pytest
import tifffile
from PIL import Image, PngImagePlugin

from ucc_path.errors import AnnotationError
from ucc_path.formats import mask_image, read_annotation
from ucc_path.settings import AnnotationSettings

ROWS, COLS = 300, 420


def make_mask(value=255, dtype=np.uint8, seed=0):
    """Discs and specks, some of them cut by the border."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:ROWS, :COLS]
    mask = rng.random((ROWS, COLS)) < 0.001
    for cx, cy, radius in rng.uniform([0, 0, 5], [COLS, ROWS, 70], (6, 3)):
        mask |= (x - cx) ** 2 + (y - cy) ** 2 < radius**2
    return mask.astype(dtype) * dtype(value)


def whole(annotation, scale=1, rows=ROWS, cols=COLS):
    return annotation.tumour_mask((0, 0), (cols * scale, rows * scale), scale)


def refusal(path, **options):
    with pytest.raises(AnnotationError) as caught:
        read_annotation(path, **options)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    assert ";" in message
    return message


def tiff(path, array, **options):
    tifffile.imwrite(path, array, **options)
    return path


def png(path, image):
    image.save(path)
    return path


PNG_KINDS = {
    "1": lambda mask: Image.fromarray(mask).convert("1"),
    "L": Image.fromarray,
    "P": lambda mask: Image.fromarray((mask > 0).astype(np.uint8)).convert("P"),
    "I;16": lambda mask: Image.fromarray((mask > 0).astype(np.uint16) * 256),
    "RGB": lambda mask: Image.fromarray(np.dstack([mask * 0, mask, mask * 0])),
    "RGBA": lambda mask: Image.fromarray(np.dstack([mask, mask, mask, np.full_like(mask, 255)])),
    "LA": lambda mask: Image.merge("LA", [Image.fromarray(mask), Image.fromarray(np.full_like(mask, 9))]),
}


@pytest.mark.parametrize("kind", PNG_KINDS)
def test_png_of_every_kind_is_read_without_regard_to_alpha(tmp_path, kind, monkeypatch):
    monkeypatch.setattr(mask_image, "_STRIP_PIXELS", 7 * COLS)
    path = png(tmp_path / "s_mask.png", PNG_KINDS[kind](make_mask()))
    np.testing.assert_array_equal(whole(read_annotation(path)), make_mask() > 0)


TIFF_KINDS = {
    "tiled lzw": {"tile": (64, 64), "compression": "lzw"},
    "tiled deflate, predicted": {"tile": (32, 128), "compression": "zlib", "predictor": True},
    "one strip": {},
    "many strips": {"rowsperstrip": 7, "compression": "lzw"},
    "big-endian": {"byteorder": ">"},
    "bigtiff": {"bigtiff": True, "tile": (64, 64)},
}


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("kind", TIFF_KINDS)
def test_tiff_of_every_kind_is_read(tmp_path, kind, dtype):
    mask = make_mask(1, dtype)
    path = tiff(tmp_path / "s_mask.tif", mask, photometric="minisblack", **TIFF_KINDS[kind])
    annotation = read_annotation(path)
    np.testing.assert_array_equal(whole(annotation), mask > 0)
    assert annotation.area_l0 == mask.sum()


@pytest.mark.parametrize("photometric", ["rgb", "minisblack"])
def test_tiff_in_colour_with_alpha_is_read_by_its_largest_colour(tmp_path, photometric):
    mask = make_mask()
    channels = [mask * 0, mask, mask * 0] if photometric == "rgb" else [mask]
    array = np.dstack([*channels, np.full_like(mask, 7)])
    path = tiff(tmp_path / "s_mask.tif", array, photometric=photometric, extrasamples=["unassalpha"], tile=(64, 64))
    np.testing.assert_array_equal(whole(read_annotation(path)), mask > 0)


@pytest.mark.parametrize("compression", ["group4", "raw", "tiff_lzw"])
def test_a_one_bit_tiff_is_tumour_where_it_is_white(tmp_path, compression):
    if compression == "group4" and tifffile.COMPRESSION.CCITT_T6 not in tifffile.TIFF.DECOMPRESSORS:
        pytest.skip("this version of tifffile, the last for Python 3.10, cannot read it")
    Image.fromarray(make_mask()).convert("1").save(tmp_path / "s_mask.tif", compression=compression)
    np.testing.assert_array_equal(whole(read_annotation(tmp_path / "s_mask.tif")), make_mask() > 0)


def test_a_tiff_whose_zero_is_white_is_tumour_where_it_is_white(tmp_path):
    path = tiff(tmp_path / "s_mask.tif", 255 - make_mask(), photometric="miniswhite", tile=(64, 64))
    np.testing.assert_array_equal(whole(read_annotation(path)), make_mask() > 0)


def test_only_the_first_level_of_a_pyramid_is_read(tmp_path):
    mask = make_mask(1)
    with tifffile.TiffWriter(tmp_path / "s_mask.tif") as writer:
        writer.write(mask, tile=(64, 64), subifds=1)
        writer.write(mask[::2, ::2] * 0 + 5, tile=(64, 64), subfiletype=1)
        writer.write(mask[::4, ::4] * 0 + 6, tile=(64, 64), subfiletype=1)
    np.testing.assert_array_equal(whole(read_annotation(tmp_path / "s_mask.tif")), mask > 0)


def test_tiles_that_were_never_written_are_not_tumour(tmp_path):
    mask = np.zeros((256, 256), np.uint8)
    mask[64:128, 128:192] = 1
    path = tiff(tmp_path / "s_mask.tif", mask, tile=(64, 64), compression="lzw")
    with tifffile.TiffFile(path, mode="r+") as file:
        counts = np.array(file.pages.first.databytecounts)
        keep = np.arange(16) == 6
        file.pages.first.tags["TileByteCounts"].overwrite((counts * keep).tolist())
    np.testing.assert_array_equal(whole(read_annotation(path), rows=256, cols=256), mask > 0)


def test_a_full_rectangle_over_many_tiles_is_two_edges(tmp_path):
    mask = np.zeros((512, 640), np.uint8)
    mask[10:500, 20:630] = 1
    assert len(read_annotation(tiff(tmp_path / "s_mask.tif", mask, tile=(64, 64))).edges) == 2


def test_a_mask_without_tumour_is_an_annotation_without_tumour(tmp_path):
    blank = np.zeros((64, 64), np.uint8)
    assert read_annotation(tiff(tmp_path / "s_mask.tif", blank)).is_empty
    assert read_annotation(png(tmp_path / "s_mask.png", Image.fromarray(blank))).is_empty


def test_more_than_one_value_is_refused_until_it_is_said_which_are_tumour(tmp_path):
    mask = make_mask(1, np.uint16)
    mask[:40], mask[40:80] = 256, 511  # the same in eight bits as 0 and 255
    path = tiff(tmp_path / "s_mask.tif", mask, tile=(64, 64))
    message = refusal(path)
    assert "1, 256, 511" in message
    assert "--mask-tumour-values 1,2" in message
    for values in [(256,), (1, 511), (9,)]:
        told = read_annotation(path, settings=AnnotationSettings(mask_tumour_values=values))
        np.testing.assert_array_equal(whole(told), np.isin(mask, values))


def test_a_photograph_is_not_listed_value_by_value(tmp_path):
    path = png(tmp_path / "s_mask.png", Image.fromarray(np.arange(256, dtype=np.uint8).reshape(16, 16)))
    assert "16, ...;" in refusal(path)


@pytest.mark.parametrize(
    ("size_l0", "scale"),
    [
        ((COLS, ROWS), 1),
        ((COLS * 32, ROWS * 32), 32),
        ((COLS * 32 - 31, ROWS * 32 + 31), 32),
        ((COLS * 32 + 17, ROWS * 32 - 5), 32),
        ((COLS * 4.115, ROWS * 4.115), 4.115),
    ],
)
def test_a_smaller_mask_is_scaled_to_the_slide_by_a_whole_number_where_one_fits(tmp_path, size_l0, scale):
    path = png(tmp_path / "s_mask.png", Image.fromarray(make_mask()))
    annotation = read_annotation(path, size_l0=size_l0)
    assert annotation.area_l0 == pytest.approx((make_mask() > 0).sum() * scale**2, rel=1e-12)
    np.testing.assert_array_equal(whole(annotation, scale), make_mask() > 0)


@pytest.mark.parametrize("size_l0", [(COLS * 32, ROWS * 16), (ROWS * 32, COLS * 32), (COLS / 2, ROWS / 2)])
def test_a_mask_of_another_shape_than_the_slide_is_refused_with_both_sizes(tmp_path, size_l0):
    message = refusal(png(tmp_path / "s_mask.png", Image.fromarray(make_mask())), size_l0=size_l0)
    assert f"{COLS} x {ROWS}" in message
    assert f"{size_l0[0]:.0f} x {size_l0[1]:.0f}" in message


def test_a_png_beyond_pillows_own_limit_is_read_and_pillow_left_as_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", ROWS * COLS // 3)
    monkeypatch.setattr(mask_image, "_STRIP_PIXELS", 10 * COLS)
    path = png(tmp_path / "s_mask.png", Image.fromarray(make_mask()))
    with pytest.raises(Image.DecompressionBombError):
        Image.open(path)
    np.testing.assert_array_equal(whole(read_annotation(path)), make_mask() > 0)
    assert Image.MAX_IMAGE_PIXELS == ROWS * COLS // 3


def test_a_png_beyond_our_own_limit_is_refused_before_it_is_decoded(tmp_path, monkeypatch):
    monkeypatch.setattr(mask_image, "MAX_PNG_PIXELS", ROWS * COLS - 1)
    path = png(tmp_path / "s_mask.png", Image.fromarray(make_mask()))
    monkeypatch.setattr(PngImagePlugin.PngImageFile, "load", None)
    assert "tiled TIFF" in refusal(path)


def test_a_tiff_strip_beyond_the_limit_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(mask_image, "MAX_SEGMENT_BYTES", 64 * 64)
    assert "tiled TIFF" in refusal(tiff(tmp_path / "s_mask.tif", make_mask()))
    read_annotation(tiff(tmp_path / "t_mask.tif", make_mask(), tile=(64, 64)))


def test_noise_is_refused_before_it_fills_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(mask_image, "MAX_RUNS", 100)
    noise = (np.random.default_rng(0).random((128, 128)) < 0.5).astype(np.uint8)
    assert "over 100 runs" in refusal(tiff(tmp_path / "s_mask.tif", noise, tile=(16, 16)))
    full = np.ones((64, 640), np.uint8)  # 640 runs as tiles, 64 as rows
    read_annotation(tiff(tmp_path / "t_mask.tif", full, tile=(16, 16)))


def test_pixels_that_are_no_labels_are_refused(tmp_path):
    assert "float32" in refusal(tiff(tmp_path / "s_mask.tif", np.ones((32, 32), np.float32)))
    apart = tiff(tmp_path / "t_mask.tif", np.ones((3, 32, 32), np.uint8), photometric="rgb", planarconfig="separate")
    assert "channels apart" in refusal(apart)
    lossy = tiff(tmp_path / "u_mask.tif", make_mask(), tile=(64, 64), compression="jpeg")
    assert "JPEG" in refusal(lossy)


def test_sixteen_bits_of_colour_in_a_png_are_refused(tmp_path):
    import imagecodecs

    path = tmp_path / "s_mask.png"
    path.write_bytes(imagecodecs.png_encode(np.ones((32, 32, 3), np.uint16)))
    assert "16 bits a channel" in refusal(path)


def test_files_that_are_cut_short_or_something_else_are_refused(tmp_path):
    sources = [
        png(tmp_path / "a_mask.png", Image.fromarray(make_mask())),
        tiff(tmp_path / "b_mask.tif", make_mask()),
        tiff(tmp_path / "c_mask.tif", make_mask(), tile=(64, 64), compression="lzw"),
    ]
    for path in sources:
        data = path.read_bytes()
        for damaged in (b"", b"nothing of the kind", data[:6], data[: len(data) // 2], data[:-40]):
            path.write_bytes(damaged)
            assert path.name in refusal(path)


def test_a_damaged_tile_is_refused(tmp_path):
    path = tiff(tmp_path / "s_mask.tif", make_mask(), tile=(64, 64), compression="zlib")
    with tifffile.TiffFile(path) as file:
        offset = file.pages.first.dataoffsets[3]
    data = bytearray(path.read_bytes())
    data[offset : offset + 8] = b"\xff" * 8
    path.write_bytes(data)
    assert "damaged" in refusal(path)


@pytest.mark.parametrize("name", ["absent_mask.png", "absent_mask.tif"])
def test_a_missing_file_is_refused(tmp_path, name):
    assert "No such file" in refusal(tmp_path / name)
