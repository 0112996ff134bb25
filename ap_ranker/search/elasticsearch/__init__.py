"""The index of a FAQ in Elasticsearch: `ap-ranker index` makes it, checks it and puts it in place."""
