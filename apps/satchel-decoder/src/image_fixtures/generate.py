"""Makes the HEIC files beside it: `pip install pillow pillow-heif`, then `python3 generate.py`.

They were made by pillow-heif 1.8.1, which is libheif 1.23.6 and x265 4.3.
"""

import pathlib

import pillow_heif
from PIL import Image

FOLDER = pathlib.Path(__file__).parent
PATCHES = [[(200, 30, 30), (30, 160, 40), (40, 60, 190)], [(0, 0, 0), (128, 128, 128), (255, 255, 255)]]

# From the upright picture to the stored one: the inverse of what a viewer does.
STORED = {
    1: None,
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
}


def picture(side=32):
    image = Image.new("RGB", (3 * side, 2 * side))
    for row, colors in enumerate(PATCHES):
        for column, color in enumerate(colors):
            image.paste(color, (column * side, row * side, (column + 1) * side, (row + 1) * side))
    return image


def exif(orientation):
    exif = Image.Exif()
    exif.endian = "<"
    exif[0x0110] = "Minox 35"
    exif[0x0112] = orientation
    exif.get_ifd(0x8825).update({1: "N", 2: (51.0, 30.0, 26.0), 29: "2024:05:14"})
    return exif.tobytes()


def save(name, image, orientation=1, **options):
    if STORED[orientation] is not None:
        image = image.transpose(STORED[orientation])
    if orientation > 1:
        options["exif"] = exif(orientation)
    options = {"quality": 90, "tile_size": 0, **options}
    pillow_heif.encode(image.mode, image.size, image.tobytes(), FOLDER / name, **options)


def save_deep(name, **options):
    data = b"".join((v * 257).to_bytes(2, "little") for v in picture().tobytes())
    pillow_heif.encode("RGB;16", (96, 64), data, FOLDER / name, quality=90, tile_size=0, **options)


def transparent():
    image = picture().convert("RGBA")
    image.paste((200, 30, 30, 0), (0, 0, 32, 32))
    return image


def gradients():
    image = Image.new("RGB", (96, 64))
    places = ((x, y) for y in range(64) for x in range(96))
    image.putdata([(x * 255 // 95, y * 255 // 63, 128 + 64 * ((x // 16 + y // 16) % 2)) for x, y in places])
    return image


def main():
    save("gradients.heic", gradients(), quality=80)
    save("plain.heic", picture())
    save("full-color.heic", picture(), chroma=444)
    save("video-range.heic", picture(), full_range_flag=0, matrix_coefficients=1, color_primaries=1,
         transfer_characteristics=13)
    save("display-p3.heic", picture(), color_primaries=12, transfer_characteristics=13, matrix_coefficients=6,
         full_range_flag=1)
    save("gray.heic", picture().convert("L"))
    save("mirrored.heic", picture(), orientation=2)
    save("turned.heic", picture(), orientation=6)
    save("turned-mirrored.heic", picture(), orientation=7)
    save("tiles.heic", picture(50), tile_size=64)
    save("tiles-turned.heic", picture(50), orientation=6, tile_size=64)
    save("transparent.heic", transparent())
    save_deep("deep.heic")
    save_deep("hdr.heic", color_primaries=9, transfer_characteristics=16, matrix_coefficients=9, full_range_flag=0)
    save("wide.heic", Image.new("RGB", (6_000, 6_000), (30, 160, 40)), quality=10)


main()
