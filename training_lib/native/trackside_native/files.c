/* Stores small files, each whole or not at all. Nothing here allocates, locks or knows Python. POSIX systems only. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))
#define LONGEST_FOLDER 4096

/* Opens a new file. Makes its folder if that alone is missing. Returns -1 on an error, which errno names. */
static int opened(const char *path) {
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
    int file = open(path, flags, 0666);
    if (file >= 0 || errno != ENOENT) return file;
    const char *end = strrchr(path, '/');
    char folder[LONGEST_FOLDER];
    size_t length = end ? (size_t)(end - path) : 0;
    if (length == 0 || length >= sizeof folder) return -1;
    memcpy(folder, path, length);
    folder[length] = 0;
    if (mkdir(folder, 0777) && errno != EEXIST) return -1;
    return open(path, flags, 0666);
}

static int has_written(int file, const char *bytes, int64_t size) {
    while (size > 0) {
        ssize_t written = write(file, bytes, (size_t)size);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return 0;
        bytes += written, size -= written;
    }
    return 1;
}

/* Writes each file under its partial name and renames it, in order. Stops at the first error, and leaves nothing of that
 * file. Returns the number of files that are stored. */
EXPORTED int64_t trackside_store_files(
    int64_t files, const char *const *partials, const char *const *paths, const char *const *bytes, const int64_t *sizes
) {
    for (int64_t place = 0; place < files; place++) {
        int file = opened(partials[place]);
        if (file < 0) return place;
        int is_whole = has_written(file, bytes[place], sizes[place]);
        if (close(file) || !is_whole || rename(partials[place], paths[place])) {
            unlink(partials[place]);
            return place;
        }
    }
    return files;
}
